import io.github.easelgrpc.easel.*;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;

/** Makes one call and prints the result. */
public final class Play {
  public static void main(String[] args) throws Exception {
    try (var own = Easel.builder()
        .onRetry((error, delay) -> System.out.println("again " + name(error)))
        .onHeartbeat(heartbeat -> System.out.println("heartbeat"))
        .onKey(key -> System.out.println("key made"))
        .build()) {
      var timeout = System.getenv("PLAY_TIMEOUT");
      var attempts = System.getenv("PLAY_ATTEMPTS");
      var limited = timeout == null ? own : own.withTimeout(Duration.ofSeconds(Long.parseLong(timeout)));
      var easel = attempts == null ? limited : limited.withAttempts(Integer.parseInt(attempts));
      var names = List.of(args).subList(1, args.length);
      switch (args[0]) {
        case "order" -> names.forEach(key -> order(easel, key));
        case "watch" -> names.forEach(id -> watch(easel, id));
        case "run" -> request(easel, args[1]).run();
        default -> show(easel, args[0], names);
      }
    } catch (EaselException e) {
      System.out.println(failed(e));
    } catch (FileSystemException e) {
      System.out.println("failed " + e.getReason());
    }
  }

  private static void order(Easel easel, String key) {
    try {
      var order = request(easel, key).send();
      System.out.println("placed " + order.generationId() + " " + order.key() + " " + order.replayed());
    } catch (EaselException e) {
      System.out.println(failed(e));
    }
  }

  private static void watch(Easel easel, String id) {
    try {
      easel.watch(id).forEach(Play::show);
      System.out.println("ended");
    } catch (EaselException e) {
      System.out.println(failed(e));
    }
  }

  private static OrderRequest request(Easel easel, String key) {
    var order = easel.order("studio/landscape", Map.of("prompt", "rain")).maxCostCents(50).label("campaign", "winter");
    return key.equals("-") ? order : order.key(key);
  }

  private static void show(Easel easel, String call, List<String> names) throws Exception {
    switch (call) {
      case "many" -> easel.watchMany(names).forEach(Play::show);
      case "all" -> easel.watchMany().forEach(Play::show);
      case "read account" -> System.out.println("balance " + easel.account().balanceCents().getAsLong());
      case "models" -> easel.models().forEach(model -> System.out.println("model " + model.modelId() + " " + model.outputKind() + " " + model.inputFields().size()));
      case "model" -> easel.model(names.get(0)).inputFields().forEach(field -> System.out.println("input " + field.name() + " " + field.type() + " "
          + field.required().get() + " " + field.defaultValue().get() + " " + field.allowedValues().size() + " " + field.maximum().getAsDouble()));
      case "quote" -> {
        var quote = easel.quote("studio/landscape", Map.of("prompt", "rain"));
        System.out.println("quote " + quote.priceCents() + " " + quote.balanceCents().getAsLong() + " " + quote.affordable().get());
      }
      case "get" -> show(easel.async(client -> client.get(names.get(0))).get());
      case "wait" -> show(easel.wait(names.get(0)));
      case "delete" -> easel.delete(names.get(0));
      case "list" -> easel.list(new Filter().label("campaign", "winter")).forEach(Play::show);
      case "usage" -> easel.usage(new UsageQuery().by(UsageQuery.Dimension.MODEL))
          .forEach(row -> System.out.println("usage " + row.modelId() + " " + row.orderCount() + " " + row.costCents()));
      case "download" -> {
        easel.download(names.get(0), Path.of(names.get(1)));
        System.out.println("file " + Files.readString(Path.of(names.get(1))));
      }
      default -> throw new IllegalArgumentException(call);
    }
    System.out.println("ended");
  }

  private static void show(Render render) {
    System.out.println("render " + render.generationId() + " " + render.state() + " " + render.etag());
  }

  private static String name(EaselException error) {
    return error.getClass().getSimpleName().replace("Exception", "");
  }

  private static String failed(EaselException error) {
    var reason = error.reason().toString().replace("ERROR_REASON_UNSPECIFIED", "-");
    var fields = String.join(",", error.fieldViolations().keySet());
    return "failed " + name(error) + " " + reason + " key=" + error.idempotencyKey().orElse("-")
        + " outcome=" + error.orderOutcome().map(known -> known.toString().toLowerCase(Locale.ROOT)).orElse("-") + " retryable=" + error.isRetryable()
        + " after=" + error.retryAfter().map(delay -> "" + delay.toSeconds()).orElse("-")
        + " remaining=" + (error.remainingCents().isPresent() ? error.remainingCents().getAsLong() : "-")
        + " reset=" + error.resetTime().map(Object::toString).orElse("-") + " fields=" + (fields.isEmpty() ? "-" : fields)
        + error.labelName().map(name -> "\nlabel " + name + " " + error.labelValue().orElse("")).orElse("")
        + error.requestId().map(id -> "\nrequest " + id).orElse("")
        + (error instanceof TimeoutException out ? out.lastHeartbeat().map(last -> "\nlast " + last.lastError()).orElse("") : "");
  }
}
