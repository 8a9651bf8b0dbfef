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
  /** The server does not recognize the catalog's status, or this client does not know the state. See {@link Render#stateNumber}. */
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
