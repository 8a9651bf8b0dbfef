package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.ListUsageRequest;
import java.time.Instant;

/** The times and dimensions of a usage report. The contract defines the default times. */
public final class UsageQuery {
  final ListUsageRequest.Builder request = ListUsageRequest.newBuilder();

  /** A property by which usage is grouped. */
  public enum Dimension { DAY, OWNER, CALLER, MODEL, LABEL }

  /** Adds dimensions by which usage is grouped. */
  public UsageQuery by(Dimension... dimensions) {
    for (var dimension : dimensions) {
      request.addGroupBy(io.github.easelgrpc.easel.v1.UsageDimension.valueOf("USAGE_DIMENSION_" + dimension));
    }
    return this;
  }

  /** Groups usage by the values of a label. */
  public UsageQuery byLabel(String name) {
    request.setLabelName(name);
    return by(Dimension.LABEL);
  }

  /** Sets the start of the period. Orders at this time are included. */
  public UsageQuery start(Instant time) {
    request.setStartTime(Times.timestamp(time));
    return this;
  }

  /** Sets the end of the period. Orders at this time are excluded. */
  public UsageQuery end(Instant time) {
    request.setEndTime(Times.timestamp(time));
    return this;
  }
}
