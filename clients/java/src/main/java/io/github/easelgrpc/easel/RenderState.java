package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.State;

/** The state of a render. */
public enum RenderState {
  QUEUED,
  RUNNING,
  SUCCEEDED,
  FAILED,
  REFUNDED,
  DELETED,
  /** A status that the server does not recognize, or a state from a newer server. See {@link Render#stateNumber}. */
  UNKNOWN;

  static RenderState of(State state) {
    switch (state) {
      case STATE_QUEUED:
        return QUEUED;
      case STATE_RUNNING:
        return RUNNING;
      case STATE_SUCCEEDED:
        return SUCCEEDED;
      case STATE_FAILED:
        return FAILED;
      case STATE_REFUNDED:
        return REFUNDED;
      case STATE_DELETED:
        return DELETED;
      default:
        return UNKNOWN;
    }
  }
}
