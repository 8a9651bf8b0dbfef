package io.github.easelgrpc.easel;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.Consumer;

/** Calls the caller's callbacks and writes to the log. */
final class Hooks {
  private static final System.Logger LOG = System.getLogger("io.github.easelgrpc.easel");
  private static final long WARN_INTERVAL = TimeUnit.MINUTES.toNanos(1); // minimum nanoseconds between warnings about a method
  private final BiConsumer<EaselException, Duration> onRetry;
  private final Consumer<Heartbeat> onHeartbeat;
  private final Consumer<String> onKey; // callback for created idempotency keys; null means that the keys are logged
  private final Map<String, Long> warned = new ConcurrentHashMap<>(); // System.nanoTime() at the last warning, keyed by method

  Hooks(BiConsumer<EaselException, Duration> onRetry, Consumer<Heartbeat> onHeartbeat, Consumer<String> onKey) {
    this.onRetry = onRetry;
    this.onHeartbeat = onHeartbeat;
    this.onKey = onKey;
  }

  /** Passes the error and the delay before the next attempt to the caller's callback. */
  void retry(EaselException error, Duration delay) {
    onRetry.accept(error, delay);
  }

  /**
   * Logs a warning that a call keeps failing, unless a warning about the method was logged during the last minute. It returns
   * whether it logged a warning.
   */
  boolean failing(String method, String address, long millis, long delay, EaselException error) {
    var now = System.nanoTime();
    var due = warned.compute(method, (name, last) -> last == null || now - last >= WARN_INTERVAL ? Long.valueOf(now) : last) == now;
    if (due) {
      LOG.log(System.Logger.Level.WARNING, "call still failing: method={0} address={1} failing_for={2} retry_in={3} error={4}",
          method, address, seconds(millis), seconds(delay), error.getMessage());
    }
    return due;
  }

  /** Logs that a call has received a response. It is called only after a warning about the call. */
  void recovered(String method, long millis) {
    LOG.log(System.Logger.Level.INFO, "call recovered: method={0} after={1}", method, seconds(millis));
  }

  private static String seconds(long millis) {
    return Duration.ofMillis(millis).toString().substring(2).toLowerCase(java.util.Locale.ROOT);
  }

  void heartbeat(Heartbeat heartbeat) {
    onHeartbeat.accept(heartbeat);
  }

  /** Passes a created idempotency key to the caller's callback, or logs the key if there is no callback. */
  void key(String key) {
    if (onKey != null) {
      onKey.accept(key);
    } else {
      LOG.log(System.Logger.Level.INFO, "ordering: idempotency_key={0}", key);
    }
  }
}
