package io.github.easelgrpc.easel;

import java.time.Instant;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The current price of a render. A later order may have a different price.
 *
 * @param affordable whether the balance covers the price; absent if the balance is unknown
 */
public record Quote(
    long priceCents, String currencyCode, Instant quoteTime, OptionalLong balanceCents, Optional<Boolean> affordable, io.github.easelgrpc.easel.v1.Quote raw) {

  static Quote of(io.github.easelgrpc.easel.v1.Quote raw) {
    return new Quote(raw.getPriceCents(), raw.getCurrencyCode(), Times.instant(raw.getQuoteTime()),
        raw.hasBalanceCents() ? OptionalLong.of(raw.getBalanceCents()) : OptionalLong.empty(), raw.hasAffordable() ? Optional.of(raw.getAffordable()) : Optional.empty(), raw);
  }
}
