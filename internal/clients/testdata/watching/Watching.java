import com.google.protobuf.Duration;
import io.github.easelgrpc.easel.Easel;
import io.github.easelgrpc.easel.Errors;
import io.github.easelgrpc.easel.Watch;
import io.github.easelgrpc.easel.v1.WatchAccountRequest;
import io.github.easelgrpc.easel.v1.WatchGenerationsRequest;
import io.grpc.InsecureChannelCredentials;
import io.grpc.StatusRuntimeException;
import java.util.function.Function;

/** Prints each state of every render and each balance, until neither can be watched any more. */
public final class Watching {
  public static void main(String[] args) throws InterruptedException {
    var heartbeat = Duration.newBuilder().setSeconds(2);
    try (var easel = Easel.connect(System.getenv("EASEL_ADDR"), System.getenv("EASEL_API_KEY"), InsecureChannelCredentials.create())) {
      var renders = easel.watchMany(WatchGenerationsRequest.newBuilder().setHeartbeatInterval(heartbeat).build());
      var account = easel.watchAccount(WatchAccountRequest.newBuilder().setHeartbeatInterval(heartbeat).build());
      var beside = new Thread(() -> print("renders", renders, r -> "render: " + r.getGenerationId() + " " + r.getState() + " " + r.getEtag()));
      beside.start();
      print("account", account, a -> "balance: " + a.getBalanceCents());
      beside.join();
    }
  }

  private static <T> void print(String name, Watch<T> watch, Function<T, String> line) {
    try (watch) {
      while (watch.hasNext()) {
        System.out.println(line.apply(watch.next()));
      }
    } catch (StatusRuntimeException e) {
      System.out.println(name + ": " + Errors.reason(e));
    }
  }
}
