import com.google.protobuf.*;
import com.google.rpc.ErrorInfo;
import io.github.easelgrpc.easel.Easel;
import io.github.easelgrpc.easel.v1.*;
import io.grpc.*;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.nio.file.*;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/**
 * Orders one render from Easel, watches it until it is finished, and saves its file. It may be
 * killed at any moment: the same command goes on with the same order.
 */
public final class Render {
  public static void main(String[] args) throws IOException {
    if (args.length != 3) {
      System.err.println("usage: Render MODEL PROMPT FILE");
      System.exit(2);
    }
    var env = System.getenv();
    var credentials = InsecureChannelCredentials.create(); // TlsChannelCredentials where the server has a certificate
    try (var easel = Easel.connect(env.getOrDefault("EASEL_ADDR", "localhost:50051"), env.getOrDefault("EASEL_API_KEY", ""), credentials)) {
      run(easel.withDeadlineAfter(10, TimeUnit.MINUTES).withListener(new Progress()), args[0], args[1], Path.of(args[2]));
    } catch (StatusRuntimeException e) {
      System.err.println("failed: " + e.getMessage());
      var known = TypeRegistry.newBuilder().add(ErrorInfo.getDescriptor()).build(); // with all of its file
      for (var detail : StatusProto.fromThrowable(e).getDetailsList()) {
        System.err.println("  " + TextFormat.printer().usingTypeRegistry(known).printToString(detail).replaceAll("\\s+", " "));
      }
      System.exit(1);
    }
  }

  private static void run(Easel easel, String model, String prompt, Path file) throws IOException {
    var inputs = Struct.newBuilder().putFields("prompt", Value.newBuilder().setStringValue(prompt).build()).build();
    var quote = easel.generations().quoteGeneration(QuoteGenerationRequest.newBuilder().setModelId(model).setInputs(inputs).build()).getQuote();
    System.out.println("price: " + quote.getPriceCents() + " cents");
    var keyFile = Path.of(file + ".key"); // on disk before the order leaves: whatever happens then, it is one order
    if (Files.notExists(keyFile)) {
      Files.writeString(keyFile, UUID.randomUUID().toString());
    }
    var render = easel.order(CreateGenerationRequest.newBuilder().setModelId(model).setInputs(inputs)
        .setIdempotencyKey(Files.readString(keyFile)).setMaxCostCents(quote.getPriceCents()).build());
    System.out.println("ordered: " + render.getGenerationId());
    var watch = WatchGenerationRequest.newBuilder().setGenerationId(render.getGenerationId()).setKnownEtag(render.getEtag())
        .setHeartbeatInterval(Duration.newBuilder().setSeconds(3)).build();
    for (var states = easel.watch(watch); states.hasNext(); ) {
      render = states.next();
      System.out.println("watching: " + render.getState());
    }
    if (render.getState() == State.STATE_SUCCEEDED) {
      easel.download(render.getGenerationId(), file);
    }
    Files.delete(keyFile); // the next run is a new order
    if (render.getState() != State.STATE_SUCCEEDED) {
      throw Status.FAILED_PRECONDITION.withDescription(render.getState() + " " + render.getFailureMessage()).asRuntimeException();
    }
  }

  private static final class Progress implements Easel.Listener {
    @Override
    public void onHeartbeat(Heartbeat heartbeat) {
      System.out.println("watching: " + (heartbeat.hasTypicalRemaining() ? heartbeat.getTypicalRemaining().getSeconds() + " s left" : "nothing new"));
    }

    @Override
    public void onRetry(StatusRuntimeException error, java.time.Duration delay) {
      System.out.println("again: " + error.getMessage());
    }
  }
}
