package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.GenerationFilter;
import io.github.easelgrpc.easel.v1.State;
import java.util.Map;

/** A filter for renders. A render must match all conditions that are set. */
public final class Filter {
  final GenerationFilter.Builder filter = GenerationFilter.newBuilder();

  /** Matches the renders of this model. */
  public Filter model(String modelId) {
    filter.setModelId(modelId);
    return this;
  }

  /** Matches the renders in one of these states. Only {@link Easel#list} accepts a filter with states. */
  public Filter states(RenderState... states) {
    for (var state : states) {
      filter.addStates(state == RenderState.UNKNOWN ? State.STATE_UNRECOGNIZED : State.valueOf("STATE_" + state));
    }
    return this;
  }

  /** Matches the renders that have this label. */
  public Filter label(String name, String value) {
    filter.putLabels(name, value);
    return this;
  }

  /** Matches the renders that have all of these labels. */
  public Filter labels(Map<String, String> labels) {
    filter.putAllLabels(labels);
    return this;
  }

  /** Matches the renders of this owner. Only an operator may filter by owner. */
  public Filter owner(String owner) {
    filter.setOwner(owner);
    return this;
  }
}
