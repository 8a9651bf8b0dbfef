package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.Generation;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/** The state of a render at one point in time. */
public final class Render {
  private final Generation raw;
  private final Heartbeat heard; // last heartbeat of the watch that received this state; null before the first heartbeat

  Render(Generation raw, Heartbeat heard) {
    this.raw = raw;
    this.heard = heard;
  }

  /** Returns the generation ID, which identifies this render in calls. */
  public String generationId() {
    return raw.getGenerationId();
  }

  /** Returns the model ID. */
  public String modelId() {
    return raw.getModelId();
  }

  /** Returns the state. */
  public RenderState state() {
    return RenderState.of(raw.getState());
  }

  /**
   * Returns the number of the state in the contract. If the server is newer than this client, state() may return
   * {@link RenderState#UNKNOWN}; the number then identifies the state.
   */
  public int stateNumber() {
    return raw.getStateValue();
  }

  /** Returns the estimated remaining time, as reported in the watch's last heartbeat. */
  public Optional<Duration> typicalRemaining() {
    return heard == null ? Optional.empty() : heard.typicalRemaining();
  }

  /** Returns whether the render is finished: succeeded, failed, refunded or deleted. */
  public boolean isTerminal() {
    return raw.getTerminal();
  }

  /** Returns the price that was charged, if it is known. */
  public OptionalLong costCents() {
    return raw.hasCostCents() ? OptionalLong.of(raw.getCostCents()) : OptionalLong.empty();
  }

  /** Returns the result of a model whose output is text. */
  public Optional<String> text() {
    return raw.hasText() ? Optional.of(raw.getText().getText()) : Optional.empty();
  }

  /** Returns the catalog's message about a failure, or an empty string. */
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

  /** Returns the etag, which differs for each state of the render. See {@link WatchOptions#knownEtags}. */
  public String etag() {
    return raw.getEtag();
  }

  /** Returns the labels of the order. */
  public Map<String, String> labels() {
    return raw.getLabelsMap();
  }

  /** Returns the original message, with all fields. */
  public Generation raw() {
    return raw;
  }

  @Override
  public String toString() {
    return generationId() + " " + state() + (state() == RenderState.UNKNOWN ? "(" + stateNumber() + ")" : "");
  }
}
