package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.ContentInfo;
import java.util.OptionalLong;

/** The description of a downloaded file. */
public record Content(String fileName, String contentType, OptionalLong sizeBytes, String etag, ContentInfo raw) {
  static Content of(ContentInfo raw) {
    return new Content(raw.getFileName(), raw.getContentType(), raw.hasSizeBytes() ? OptionalLong.of(raw.getSizeBytes()) : OptionalLong.empty(), raw.getEtag(), raw);
  }
}
