package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.Generation;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/** A render as it was when it was read. */
public final class Render {
  private final Generation raw;
  private final Heartbeat heard; // null where it is of no watch of its own, or had none yet

  Render(Generation raw, Heartbeat heard) {
    this.raw = raw;
    this.heard = heard;
  }

  /** Its id, which every other call takes. */
  public String generationId() {
    return raw.getGenerationId();
  }

  /** The model that it was ordered from. */
  public String modelId() {
    return raw.getModelId();
  }

  /** Its state. */
  public RenderState state() {
    return RenderState.of(raw.getState());
  }

  /** The number of its state, by which {@link RenderState#UNKNOWN} is one of a newer server. */
  public int stateNumber() {
    return raw.getStateValue();
  }

  /** How much longer such a render typically takes, as the last heartbeat of its watch had it. */
  public Optional<Duration> typicalRemaining() {
    return heard == null ? Optional.empty() : heard.typicalRemaining();
  }

  /** Whether it has ended: a caller need not look again. */
  public boolean isTerminal() {
    return raw.getTerminal();
  }

  /** What the catalog charged, where it says so. */
  public OptionalLong costCents() {
    return raw.hasCostCents() ? OptionalLong.of(raw.getCostCents()) : OptionalLong.empty();
  }

  /** The result of a model that makes text. */
  public Optional<String> text() {
    return raw.hasText() ? Optional.of(raw.getText().getText()) : Optional.empty();
  }

  /** Why it has failed, or "". */
  public String failureMessage() {
    return raw.getFailureMessage();
  }

  /** When it was ordered. */
  public Optional<Instant> createTime() {
    return raw.hasCreateTime() ? Optional.of(Times.instant(raw.getCreateTime())) : Optional.empty();
  }

  /** When it ended. */
  public Optional<Instant> terminalTime() {
    return raw.hasTerminalTime() ? Optional.of(Times.instant(raw.getTerminalTime())) : Optional.empty();
  }

  /** What changes whenever anything of the render does: write it down, and a watch goes on after it. */
  public String etag() {
    return raw.getEtag();
  }

  /** The labels of its order. */
  public Map<String, String> labels() {
    return raw.getLabelsMap();
  }

  /** The message of the contract, with everything else. */
  public Generation raw() {
    return raw;
  }

  @Override
  public String toString() {
    return generationId() + " " + state() + (state() == RenderState.UNKNOWN ? "(" + stateNumber() + ")" : "");
  }
}
