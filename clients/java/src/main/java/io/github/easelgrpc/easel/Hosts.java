package io.github.easelgrpc.easel;

import io.grpc.EquivalentAddressGroup;
import io.grpc.NameResolver;
import io.grpc.NameResolverProvider;
import io.grpc.NameResolverRegistry;
import io.grpc.Status;
import io.grpc.StatusOr;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.URI;
import java.net.UnknownHostException;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;

/** Finds hosts with an underscore, as containers may be named: gRPC's own resolver takes them for no names. */
final class Hosts extends NameResolverProvider {
  private static final String SCHEME = "easel-host";

  static {
    NameResolverRegistry.getDefaultRegistry().register(new Hosts());
  }

  private Hosts() {}

  /** The address as gRPC names it. */
  static String target(Address address) {
    return (address.hostPort.contains("_") ? SCHEME + ":///" : "") + address.hostPort;
  }

  @Override
  public NameResolver newNameResolver(URI target, NameResolver.Args args) {
    return SCHEME.equals(target.getScheme()) ? new Resolver(target.getPath().substring(1), args) : null;
  }

  @Override
  public String getDefaultScheme() {
    return SCHEME;
  }

  @Override
  public Collection<Class<? extends SocketAddress>> getProducedSocketAddressTypes() {
    return Set.of(InetSocketAddress.class);
  }

  @Override
  protected boolean isAvailable() {
    return true;
  }

  @Override
  protected int priority() {
    return 0; // the scheme of no name that has none
  }

  /** Asks the system, again whenever a connection is lost. */
  private static final class Resolver extends NameResolver {
    private final String hostPort;
    private final Args args;
    private Listener2 listener;

    Resolver(String hostPort, Args args) {
      this.hostPort = hostPort;
      this.args = args;
    }

    @Override
    public String getServiceAuthority() {
      return hostPort;
    }

    @Override
    public void start(Listener2 listener) {
      this.listener = listener;
      refresh();
    }

    @Override
    public void refresh() {
      Objects.requireNonNull(args.getOffloadExecutor()).execute(() -> {
        var found = ResolutionResult.newBuilder().setAddressesOrError(find()).build();
        args.getSynchronizationContext().execute(() -> listener.onResult2(found));
      });
    }

    private StatusOr<List<EquivalentAddressGroup>> find() {
      var colon = hostPort.lastIndexOf(':');
      var port = Integer.parseInt(hostPort.substring(colon + 1));
      try {
        return StatusOr.fromValue(Arrays.stream(InetAddress.getAllByName(hostPort.substring(0, colon)))
            .map(ip -> new EquivalentAddressGroup(new InetSocketAddress(ip, port))).collect(Collectors.toList()));
      } catch (UnknownHostException e) {
        return StatusOr.fromStatus(Status.UNAVAILABLE.withDescription("no host of this name: " + e.getMessage()));
      }
    }

    @Override
    public void shutdown() {}
  }
}
