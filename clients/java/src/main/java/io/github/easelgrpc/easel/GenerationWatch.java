package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.Generation;
import io.github.easelgrpc.easel.v1.WatchGenerationRequest;
import io.github.easelgrpc.easel.v1.WatchGenerationResponse;
import java.util.Iterator;

/** A watch of one generation. A new stream omits the last state that the watch received. */
final class GenerationWatch extends Follower<WatchGenerationResponse, Render> {
  private final WatchGenerationRequest.Builder request; // request for the next stream

  /** Creates a watch. key is the order's idempotency key, or empty if unknown. */
  GenerationWatch(Easel easel, WatchGenerationRequest request, String key) {
    super(easel, new Attempts(easel, Attempts.Kind.STREAM, "WatchGeneration", key, request.getGenerationId()), request.getHeartbeatInterval(), true);
    this.request = request.toBuilder().setIncludeContent(false); // callers download the content instead, because a download can resume
  }

  @Override
  Iterator<WatchGenerationResponse> open(Easel easel, Attempts attempts) {
    return attempts.on(easel.generations()).watchGeneration(request.build());
  }

  @Override
  void take(WatchGenerationResponse message) {
    if (message.hasHeartbeat()) {
      heartbeat(message.getHeartbeat());
    } else if (message.hasClosing()) {
      closing(message.getClosing());
    } else if (message.hasUpdate()) {
      update(message.getUpdate().getGeneration());
    }
  }

  private void update(Generation generation) {
    if (!generation.getEtag().equals(request.getKnownEtag())) {
      progress();
    }
    request.setKnownEtag(generation.getEtag());
    newer(new Render(generation, heard()));
  }
}
