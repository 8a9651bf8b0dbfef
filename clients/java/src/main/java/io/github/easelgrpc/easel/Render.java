package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.Generation;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/** The state of a render when it was read. */
public final class Render {
  private final Generation raw;
  private final Heartbeat heard; // null if no watch of this render received one

  Render(Generation raw, Heartbeat heard) {
    this.raw = raw;
    this.heard = heard;
  }

  /** Returns the generation ID, which the other calls need. */
  public String generationId() {
    return raw.getGenerationId();
  }

  /** Returns the ID of the model. */
  public String modelId() {
    return raw.getModelId();
  }

  /** Returns the state. */
  public RenderState state() {
    return RenderState.of(raw.getState());
  }

  /** Returns the number of the state. It distinguishes the states of a newer server, which are {@link RenderState#UNKNOWN}. */
  public int stateNumber() {
    return raw.getStateValue();
  }

  /** Returns the typical remaining time of such a render, from the last heartbeat of the watch. */
  public Optional<Duration> typicalRemaining() {
    return heard == null ? Optional.empty() : heard.typicalRemaining();
  }

  /** Returns whether the render is finished, so that no further read is needed. */
  public boolean isTerminal() {
    return raw.getTerminal();
  }

  /** Returns the charge of the catalog, if it is known. */
  public OptionalLong costCents() {
    return raw.hasCostCents() ? OptionalLong.of(raw.getCostCents()) : OptionalLong.empty();
  }

  /** Returns the result of a text model. */
  public Optional<String> text() {
    return raw.hasText() ? Optional.of(raw.getText().getText()) : Optional.empty();
  }

  /** Returns the reason of a failure, or an empty string. */
  public String failureMessage() {
    return raw.getFailureMessage();
  }

  /** Returns the time of the order. */
  public Optional<Instant> createTime() {
    return raw.hasCreateTime() ? Optional.of(Times.instant(raw.getCreateTime())) : Optional.empty();
  }

  /** Returns the time when the render finished. */
  public Optional<Instant> terminalTime() {
    return raw.hasTerminalTime() ? Optional.of(Times.instant(raw.getTerminalTime())) : Optional.empty();
  }

  /** Returns the etag, which changes with every change of the render. A watch can resume after a stored etag. */
  public String etag() {
    return raw.getEtag();
  }

  /** Returns the labels of the order. */
  public Map<String, String> labels() {
    return raw.getLabelsMap();
  }

  /** Returns the complete message of the contract. */
  public Generation raw() {
    return raw;
  }

  @Override
  public String toString() {
    return generationId() + " " + state() + (state() == RenderState.UNKNOWN ? "(" + stateNumber() + ")" : "");
  }
}
