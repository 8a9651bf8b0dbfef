package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.GenerationFilter;
import io.github.easelgrpc.easel.v1.State;
import java.util.Map;

/** Chooses renders: all that is set must match. */
public final class Filter {
  final GenerationFilter.Builder filter = GenerationFilter.newBuilder();

  /** Those of a model. */
  public Filter model(String modelId) {
    filter.setModelId(modelId);
    return this;
  }

  /** Those in one of these states, in a list. */
  public Filter states(RenderState... states) {
    for (var state : states) {
      filter.addStates(state == RenderState.UNKNOWN ? State.STATE_UNRECOGNIZED : State.valueOf("STATE_" + state));
    }
    return this;
  }

  /** Those with a label. */
  public Filter label(String name, String value) {
    filter.putLabels(name, value);
    return this;
  }

  /** Those with all of the labels. */
  public Filter labels(Map<String, String> labels) {
    filter.putAllLabels(labels);
    return this;
  }

  /** Those of an owner, for operators. */
  public Filter owner(String owner) {
    filter.setOwner(owner);
    return this;
  }
}
