package io.github.easelgrpc.easel;

import com.google.protobuf.ProtocolMessageEnum;
import java.util.Arrays;

/** Converts enums in the contract to Java enums, which have the same names without the prefix. */
final class Names {
  private Names() {}

  /** Returns the constant for a value in the contract, or unknown for a value from a newer server. */
  static <E extends Enum<E>> E of(ProtocolMessageEnum value, String prefix, E unknown) {
    var name = value.toString();
    return Arrays.stream(unknown.getDeclaringClass().getEnumConstants()).filter(one -> name.equals(prefix + one)).findFirst().orElse(unknown);
  }
}
