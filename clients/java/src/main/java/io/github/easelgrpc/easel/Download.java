package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.ContentChunk;
import io.github.easelgrpc.easel.v1.ContentInfo;
import io.github.easelgrpc.easel.v1.ContentSummary;
import io.github.easelgrpc.easel.v1.DownloadGenerationRequest;
import io.grpc.Context;
import java.io.IOException;
import java.io.OutputStream;
import java.math.BigInteger;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.time.Instant;
import java.util.regex.Pattern;
import java.util.zip.CRC32C;

/** The state of a download, which can span several streams. */
final class Download {
  private static final Duration STALE_AGE = Duration.ofDays(1); // time since the last write after which a part file is regarded as abandoned

  private final OutputStream to;
  private final FileChannel file; // file to which the output stream writes; null if the caller supplied the output stream
  private final MessageDigest digest = sha256();
  private final DownloadGenerationRequest.Builder request; // request for the remaining bytes
  private ContentInfo info; // description of the file; null before the first chunk

  Download(String generationId, OutputStream to, FileChannel file) {
    this.to = to;
    this.file = file;
    this.request = DownloadGenerationRequest.newBuilder().setGenerationId(generationId);
  }

  String generationId() {
    return request.getGenerationId();
  }

  long offset() {
    return request.getReadOffset();
  }

  /** Receives one stream and writes its bytes to the output. The stream starts at the first byte that has not been received. */
  ContentInfo once(Easel easel, Attempts attempts) throws IOException {
    var call = Context.current().withCancellation();
    var previous = call.attach();
    try {
      for (var messages = attempts.on(easel.generations()).downloadGeneration(request.build()); messages.hasNext(); ) {
        attempts.responded();
        take(messages.next().getChunk());
      }
    } finally {
      call.detachAndCancel(previous, null);
    }
    if (info == null || info.hasSizeBytes() && info.getSizeBytes() != offset()) {
      throw new DamagedException();
    }
    return info;
  }

  /**
   * Reports whether the download can continue, and prepares the request for the next stream. With an etag, the server ensures
   * that the remaining bytes belong to the same content. Without an etag, a download to a file restarts at its first byte, and
   * a download to the caller's stream can't continue.
   */
  boolean isResumable(EaselException error) throws IOException {
    if (offset() == 0 || !request.getEtag().isEmpty()) {
      return true;
    }
    if (file == null) {
      error.addSuppressed(new IOException("download cannot resume, because the content has no etag"));
      return false;
    }
    digest.reset();
    request.clearReadOffset();
    file.truncate(0); // this also sets the position to 0
    return true;
  }

  /**
   * Removes the part files of killed downloads to the same file. It keeps part files that were written during the last day,
   * because they may belong to running downloads.
   */
  static void removeStale(Path file) throws IOException {
    var name = Pattern.compile(Pattern.quote("." + file.getFileName()) + "\\.[\\w-]+\\.part");
    var old = FileTime.from(Instant.now().minus(STALE_AGE));
    try (var files = Files.newDirectoryStream(file.toAbsolutePath().getParent(), part -> name.matcher(part.getFileName().toString()).matches())) {
      for (var part : files) {
        if (Files.getLastModifiedTime(part).compareTo(old) < 0) {
          Files.deleteIfExists(part);
        }
      }
    } catch (NoSuchFileException e) { // another download has already removed the part file, or the directory does not exist
    }
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
    if (chunk.hasInfo() || info == null) {
      info = chunk.getInfo();
    }
    if (!info.getEtag().isEmpty()) {
      request.setEtag(info.getEtag()); // with the etag, the server rejects the next request if the content has changed
    }
    if (chunk.hasSummary() && !isWhole(chunk.getSummary())) {
      throw new DamagedException();
    }
  }

  private boolean isWhole(ContentSummary summary) {
    try {
      var sum = ((MessageDigest) digest.clone()).digest(); // a clone, because more bytes may follow
      return summary.getSizeBytes() == offset() && summary.getSha256().equals(String.format("%064x", new BigInteger(1, sum)));
    } catch (CloneNotSupportedException e) {
      throw new IllegalStateException("this Java cannot clone its SHA-256", e);
    }
  }

  private static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("this Java has no SHA-256", e);
    }
  }
}
