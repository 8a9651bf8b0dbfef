package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.Heartbeat;
import io.grpc.Status;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BiConsumer;
import java.util.function.Consumer;

/** Who is told of what a client does by itself, and the log. */
final class Hooks {
  private static final System.Logger LOG = System.getLogger("io.github.easelgrpc.easel");
  private final BiConsumer<EaselException, Duration> onRetry;
  private final Consumer<Heartbeat> onHeartbeat;
  private final Consumer<String> onKey; // null: the log
  private final AtomicBoolean away = new AtomicBoolean(); // the server

  Hooks(BiConsumer<EaselException, Duration> onRetry, Consumer<Heartbeat> onHeartbeat, Consumer<String> onKey) {
    this.onRetry = onRetry;
    this.onHeartbeat = onHeartbeat;
    this.onKey = onKey;
  }

  /** Another attempt follows. The first of an outage is logged. */
  void retry(EaselException error, Duration delay) {
    var gone = error.code() == Status.Code.UNAVAILABLE && Set.of("", "UNAVAILABLE", "SERVER_DRAINING").contains(error.reasonName());
    if (!gone) {
      answered();
    } else if (away.compareAndSet(false, true)) {
      LOG.log(System.Logger.Level.WARNING, "Easel is away, and is tried again: {0}", error.getMessage());
    }
    onRetry.accept(error, delay);
  }

  /** The server has answered. */
  void answered() {
    if (away.get() && away.compareAndSet(true, false)) {
      LOG.log(System.Logger.Level.INFO, "Easel is back");
    }
  }

  void heartbeat(Heartbeat heartbeat) {
    onHeartbeat.accept(heartbeat);
  }

  /** An idempotency key was made, and its order is about to leave. */
  void key(String key) {
    if (onKey != null) {
      onKey.accept(key);
    } else {
      LOG.log(System.Logger.Level.INFO, "ordering with the idempotency key {0}", key);
    }
  }
}
