package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.Generation;
import io.github.easelgrpc.easel.v1.WatchGenerationsRequest;
import io.github.easelgrpc.easel.v1.WatchGenerationsResponse;
import java.util.Iterator;

/** A watch of many generations. A new stream omits the states that earlier streams delivered. */
final class GenerationsWatch extends Follower<WatchGenerationsResponse, Render> {
  private final WatchGenerationsRequest request;
  private final Etags etags;

  GenerationsWatch(Easel easel, WatchGenerationsRequest request) {
    super(easel, new Attempts(easel, Attempts.Kind.STREAM, "WatchGenerations", "", ""), request.getHeartbeatInterval(), request.getGenerationIdsCount() > 0);
    this.request = request;
    this.etags = new Etags(request);
  }

  @Override
  Iterator<WatchGenerationsResponse> open(Easel easel, Attempts attempts) {
    return attempts.on(easel.generations()).watchGenerations(request.toBuilder().clearKnownEtags().putAllKnownEtags(etags.wanted()).build());
  }

  @Override
  void take(WatchGenerationsResponse message) {
    if (message.hasHeartbeat()) {
      heartbeat(message.getHeartbeat());
    } else if (message.hasClosing()) {
      closing(message.getClosing());
    } else if (message.hasUpdate()) {
      update(message.getUpdate().getGeneration());
    }
  }

  private void update(Generation generation) {
    if (etags.add(generation)) {
      progress();
      newer(new Render(generation, null));
    }
  }
}
