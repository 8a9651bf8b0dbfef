package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.AccountUpdate;
import io.github.easelgrpc.easel.v1.WatchAccountRequest;
import io.github.easelgrpc.easel.v1.WatchAccountResponse;
import java.util.Iterator;

/** The watch of the account, which each stream begins with. */
final class AccountWatch extends Follower<WatchAccountResponse, Account> {
  private final WatchAccountRequest request;
  private io.github.easelgrpc.easel.v1.Account last; // null before the first; only what can change

  AccountWatch(Easel easel, WatchAccountRequest request) {
    super(easel, new Attempts(easel, Attempts.Kind.STREAM, "WatchAccount", "", ""), request.getHeartbeatInterval(), false);
    this.request = request;
  }

  @Override
  Iterator<WatchAccountResponse> open(Easel easel, Attempts attempts) {
    return attempts.on(easel.accounts()).watchAccount(request);
  }

  @Override
  void take(WatchAccountResponse message) {
    if (message.hasHeartbeat()) {
      heartbeat(message.getHeartbeat());
    } else if (message.hasClosing()) {
      closing(message.getClosing());
    } else if (message.hasUpdate()) {
      update(message.getUpdate());
    }
  }

  /** Yields an account. The first one of a later stream is no progress, and yielded only where it is another. */
  private void update(AccountUpdate update) {
    var again = update.getInitial() && last != null;
    if (!again) {
      progress();
    }
    var money = money(update.getAccount());
    if (!again || !last.equals(money)) {
      last = money;
      newer(Account.of(update.getAccount()));
    }
  }

  /** What of an account can change: not when it was read, nor what else the catalog says. */
  private static io.github.easelgrpc.easel.v1.Account money(io.github.easelgrpc.easel.v1.Account account) {
    return account.toBuilder().clearObserveTime().clearUpstreamFields().build();
  }
}
