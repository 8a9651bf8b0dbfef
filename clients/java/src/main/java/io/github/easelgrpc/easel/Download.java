package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.ContentChunk;
import io.github.easelgrpc.easel.v1.ContentInfo;
import io.github.easelgrpc.easel.v1.DownloadGenerationRequest;
import io.grpc.Context;
import java.io.IOException;
import java.io.OutputStream;
import java.math.BigInteger;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.zip.CRC32C;

/** How far a download has come, over as many streams as it takes. */
final class Download {
  private final OutputStream to;
  private final MessageDigest digest = sha256();
  private final DownloadGenerationRequest.Builder request; // of the rest
  private ContentInfo info = ContentInfo.getDefaultInstance();

  Download(String generationId, OutputStream to) {
    this.to = to;
    this.request = DownloadGenerationRequest.newBuilder().setGenerationId(generationId);
  }

  long offset() {
    return request.getReadOffset();
  }

  /** Reads one stream, from where the last one broke off to the end. */
  ContentInfo once(Easel easel) throws IOException {
    var call = Context.current().withCancellation();
    var previous = call.attach();
    try {
      for (var messages = easel.generations().downloadGeneration(request.build()); messages.hasNext(); ) {
        easel.hooks().answered();
        take(messages.next().getChunk());
      }
    } finally {
      call.detachAndCancel(previous, null);
    }
    if (info.hasSizeBytes() && info.getSizeBytes() != offset()) {
      throw new DamagedException();
    }
    return info;
  }

  private void take(ContentChunk chunk) throws IOException {
    var sum = new CRC32C();
    sum.update(chunk.getData().asReadOnlyByteBuffer());
    if (chunk.getOffset() != offset() || (int) sum.getValue() != chunk.getCrc32C()) {
      throw new DamagedException();
    }
    chunk.getData().writeTo(to);
    digest.update(chunk.getData().asReadOnlyByteBuffer());
    request.setReadOffset(offset() + chunk.getData().size());
    if (chunk.hasInfo()) {
      info = chunk.getInfo();
      request.setEtag(info.getEtag()); // the rest must be of the same bytes
    }
    if (chunk.hasSummary() && !chunk.getSummary().getSha256().equals(String.format("%064x", new BigInteger(1, digest.digest())))) {
      throw new DamagedException();
    }
  }

  private static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }
}
