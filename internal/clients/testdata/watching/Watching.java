import io.github.easelgrpc.easel.*;
import io.github.easelgrpc.easel.v1.WatchAccountRequest;
import io.github.easelgrpc.easel.v1.WatchGenerationsRequest;
import java.util.function.Function;

/** Prints each state of every render and each balance, until neither can be watched any more. */
public final class Watching {
  public static void main(String[] args) throws InterruptedException {
    try (var easel = Easel.create()) {
      var renders = easel.watchMany(WatchGenerationsRequest.getDefaultInstance());
      var account = easel.watchAccount(WatchAccountRequest.getDefaultInstance());
      var beside = new Thread(() -> print("renders", renders, r -> "render: " + r.generationId() + " " + r.state() + " " + r.etag()));
      beside.start();
      print("account", account, a -> "balance: " + a.getBalanceCents());
      beside.join();
    }
  }

  private static <T> void print(String name, Watch<T> watch, Function<T, String> line) {
    try (watch) {
      watch.forEach(state -> System.out.println(line.apply(state)));
    } catch (EaselException e) {
      System.out.println(name + ": " + e.reason());
    }
  }
}
