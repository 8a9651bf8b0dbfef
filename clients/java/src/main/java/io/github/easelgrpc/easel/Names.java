package io.github.easelgrpc.easel;

import com.google.protobuf.ProtocolMessageEnum;
import java.util.Arrays;

/** Converts enumerations of the contract to those of Java, which have the same names without the prefix. */
final class Names {
  private Names() {}

  /** The constant of a value of the contract, or the one for a value of a newer server. */
  static <E extends Enum<E>> E of(ProtocolMessageEnum value, String prefix, E unknown) {
    var name = value.toString();
    return Arrays.stream(unknown.getDeclaringClass().getEnumConstants()).filter(one -> name.equals(prefix + one)).findFirst().orElse(unknown);
  }
}
