import io.github.easelgrpc.easel.*;
import java.io.IOException;
import java.nio.file.*;
import java.time.Duration;
import java.util.Map;
import java.util.UUID;

/**
 * Orders one render from Easel, watches it until it is finished, and saves its file. You can kill
 * the program at any time. To continue with the same order, run the same command again.
 */
public final class Render {
  public static void main(String[] args) throws IOException {
    if (args.length != 3) {
      System.err.println("usage: Render MODEL PROMPT FILE");
      System.exit(2);
    }
    try (var easel = Easel.builder()
        .onHeartbeat(heartbeat -> System.out.println("watching: " + heartbeat.typicalRemaining().map(left -> left.toSeconds() + " s left").orElse("nothing new")))
        .onRetry((error, delay) -> System.out.println("retrying: " + error.getMessage()))
        .build()) {
      run(easel.withTimeout(Duration.ofMinutes(10)), args[0], args[1], Path.of(args[2]));
    } catch (EaselException e) {
      System.err.println("failed: " + e.getMessage() + " " + e.fieldViolations());
      System.exit(1);
    }
  }

  private static void run(Easel easel, String model, String prompt, Path file) throws IOException {
    easel.withTimeout(Duration.ofSeconds(10)).account(); // fails if the address, the key or the certificate is wrong
    var inputs = Map.of("prompt", prompt);
    var price = easel.quote(model, inputs).priceCents();
    System.out.println("price: " + price + " cents");
    var keyFile = Path.of(file + ".key"); // stored before the order is sent, so that a rerun does not order twice
    if (Files.notExists(keyFile)) {
      Files.writeString(keyFile, UUID.randomUUID().toString());
    }
    var order = easel.order(model, inputs).key(Files.readString(keyFile)).maxCostCents(price).send();
    System.out.println("ordered: " + order.generationId());
    var last = order.render();
    for (var render : easel.watch(order.generationId())) {
      System.out.println("watching: " + render.state());
      last = render;
    }
    if (last.state() == RenderState.SUCCEEDED) {
      easel.download(order.generationId(), file);
    }
    Files.delete(keyFile); // without the key, the next run places a new order
    if (last.state() != RenderState.SUCCEEDED) {
      System.err.println("failed: " + last.state() + " " + last.failureMessage());
      System.exit(1);
    }
  }
}
