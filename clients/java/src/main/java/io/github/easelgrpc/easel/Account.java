package io.github.easelgrpc.easel;

import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The account's balance and the caller's budgets.
 *
 * @param balanceCents absent if the caller may not see the balance
 */
public record Account(
    OptionalLong balanceCents, String currencyCode, List<Budget> budgets, Optional<Instant> observeTime, io.github.easelgrpc.easel.v1.Account raw) {

  /** The budget and the spending of a team, or of a caller without a team, in the current day or month. */
  public record Budget(
      Window window, long limitCents, long spentCents, long reservedCents, Instant startTime, Instant resetTime, io.github.easelgrpc.easel.v1.Budget raw) {}

  /** The period of a budget: a day or a month in UTC. */
  public enum Window {
    DAY, MONTH,
    /** A window that this version of the client does not know. */
    UNKNOWN
  }

  static Account of(io.github.easelgrpc.easel.v1.Account raw) {
    var budgets = raw.getBudgetsList().stream().map(Account::budget).toList();
    return new Account(raw.hasBalanceCents() ? OptionalLong.of(raw.getBalanceCents()) : OptionalLong.empty(), raw.getCurrencyCode(), budgets,
        raw.hasObserveTime() ? Optional.of(Times.instant(raw.getObserveTime())) : Optional.empty(), raw);
  }

  static Budget budget(io.github.easelgrpc.easel.v1.Budget raw) {
    return new Budget(Names.of(raw.getWindow(), "BUDGET_WINDOW_", Window.UNKNOWN), raw.getLimitCents(), raw.getSpentCents(), raw.getReservedCents(),
        Times.instant(raw.getStartTime()), Times.instant(raw.getResetTime()), raw);
  }
}
