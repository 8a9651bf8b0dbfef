import com.google.gson.Gson;
import com.google.gson.reflect.TypeToken;
import com.google.protobuf.*;
import com.google.rpc.ErrorInfo;
import io.github.easelgrpc.easel.v1.*;
import io.grpc.*;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.MetadataUtils;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.CRC32C;

/**
 * Orders one render from Easel, watches it until it is finished, and saves its file. It may be
 * killed at any moment: the same command goes on with the same order.
 */
public final class Render {
  private static final int HEARTBEAT = 3; // seconds
  private static final Set<Status.Code> PASSING =
      EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.INTERNAL, Status.Code.UNKNOWN, Status.Code.CANCELLED, Status.Code.RESOURCE_EXHAUSTED);
  private final GenerationServiceGrpc.GenerationServiceBlockingStub easel;
  private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(work -> {
    var thread = new Thread(work);
    thread.setDaemon(true);
    return thread;
  });

  Render(Channel channel, String key) {
    var headers = new Metadata();
    headers.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer " + key);
    easel = GenerationServiceGrpc.newBlockingStub(channel)
        .withInterceptors(MetadataUtils.newAttachHeadersInterceptor(headers))
        .withDeadlineAfter(10, TimeUnit.MINUTES); // of everything
  }

  public static void main(String[] args) throws Exception {
    if (args.length != 3) {
      System.err.println("usage: Render MODEL PROMPT FILE");
      System.exit(2);
    }
    var env = System.getenv();
    var config = new InputStreamReader(Render.class.getResourceAsStream("/easel/v1/service_config.json"), StandardCharsets.UTF_8);
    var channel = NettyChannelBuilder.forTarget(env.getOrDefault("EASEL_ADDR", "localhost:50051"))
        .usePlaintext() // leave it out where the server has a certificate
        .defaultServiceConfig(new Gson().fromJson(config, new TypeToken<Map<String, ?>>() {})) // retries unary calls
        .keepAliveTime(10, TimeUnit.SECONDS).keepAliveTimeout(5, TimeUnit.SECONDS).build();
    try {
      new Render(channel, env.getOrDefault("EASEL_API_KEY", "")).run(args[0], args[1], Path.of(args[2]));
    } catch (StatusRuntimeException e) {
      System.err.println("failed: " + e.getMessage());
      var known = TypeRegistry.newBuilder().add(ErrorInfo.getDescriptor()).build(); // with all of its file
      for (var detail : StatusProto.fromThrowable(e).getDetailsList()) {
        System.err.println("  " + TextFormat.printer().usingTypeRegistry(known).printToString(detail).replaceAll("\\s+", " "));
      }
      System.exit(1);
    }
  }

  private void run(String model, String prompt, Path file) throws IOException, InterruptedException {
    var inputs = Struct.newBuilder().putFields("prompt", Value.newBuilder().setStringValue(prompt).build()).build();
    var quote = easel.quoteGeneration(QuoteGenerationRequest.newBuilder().setModelId(model).setInputs(inputs).build()).getQuote();
    System.out.println("price: " + quote.getPriceCents() + " cents");
    var keyFile = Path.of(file + ".key"); // on disk before the order leaves: whatever happens then, it is one order
    if (Files.notExists(keyFile)) {
      Files.writeString(keyFile, UUID.randomUUID().toString());
    }
    var render = easel.createGeneration(CreateGenerationRequest.newBuilder().setModelId(model).setInputs(inputs)
        .setIdempotencyKey(Files.readString(keyFile)).setMaxCostCents(quote.getPriceCents()).build()).getGeneration();
    System.out.println("ordered: " + render.getGenerationId());
    render = watch(render);
    if (render.getState() == State.STATE_SUCCEEDED) {
      download(render.getGenerationId(), file);
    }
    Files.delete(keyFile); // the next run is a new order
    if (render.getState() != State.STATE_SUCCEEDED) {
      throw Status.FAILED_PRECONDITION.withDescription(render.getState() + " " + render.getFailureMessage()).asRuntimeException();
    }
  }

  /** Follows a render to its end, over as many streams as it takes. */
  private Generation watch(Generation render) throws InterruptedException {
    while (true) {
      var request = WatchGenerationRequest.newBuilder().setGenerationId(render.getGenerationId()).setKnownEtag(render.getEtag())
          .setHeartbeatInterval(Duration.newBuilder().setSeconds(HEARTBEAT)).build();
      var call = Context.current().withCancellation();
      var silence = timer.schedule(() -> call.cancel(null), 3 * HEARTBEAT, TimeUnit.SECONDS);
      var attached = call.attach();
      try {
        for (var messages = easel.watchGeneration(request); messages.hasNext(); ) {
          var message = messages.next();
          silence.cancel(false);
          silence = timer.schedule(() -> call.cancel(null), 3 * HEARTBEAT, TimeUnit.SECONDS);
          render = message.hasUpdate() ? message.getUpdate().getGeneration() : render;
          var left = message.getHeartbeat().getTypicalRemaining().getSeconds();
          System.out.println("watching: " + render.getState() + (left > 0 ? " " + left + " s left" : ""));
        }
        return render;
      } catch (StatusRuntimeException e) { // any: only at the goal does a stream end without one
        again(e, true);
      } finally {
        silence.cancel(false);
        call.detachAndCancel(attached, null);
      }
    }
  }

  /** Fetches the bytes over as many streams as it takes, and names the file when all are there. */
  private void download(String id, Path path) throws IOException, InterruptedException {
    var part = Path.of(path + ".part");
    var request = DownloadGenerationRequest.newBuilder().setGenerationId(id);
    try (var file = Files.newOutputStream(part)) {
      for (var done = false; !done; ) {
        try {
          for (var chunks = easel.downloadGeneration(request.build()); chunks.hasNext(); ) {
            var chunk = chunks.next().getChunk();
            var sum = new CRC32C();
            sum.update(chunk.getData().asReadOnlyByteBuffer());
            if (chunk.getOffset() != request.getReadOffset() || (int) sum.getValue() != chunk.getCrc32C()) {
              throw new IOException("bytes arrived damaged");
            }
            chunk.getData().writeTo(file);
            request.setReadOffset(chunk.getOffset() + chunk.getData().size());
            System.out.println("downloaded: " + request.getReadOffset() + " bytes");
            if (chunk.hasInfo()) {
              request.setEtag(chunk.getInfo().getEtag()); // the rest must be of the same bytes
            }
          }
          done = true;
        } catch (StatusRuntimeException e) {
          again(e, PASSING.contains(e.getStatus().getCode()));
        }
      }
    }
    Files.move(part, path, StandardCopyOption.REPLACE_EXISTING);
  }

  /** Waits before another attempt, where it may be and there is time for one. */
  private void again(StatusRuntimeException e, boolean may) throws InterruptedException {
    if (!may || easel.getCallOptions().getDeadline().isExpired()) {
      throw e;
    }
    System.out.println("again: " + e.getMessage());
    Thread.sleep(ThreadLocalRandom.current().nextInt(300, 1000));
  }
}
