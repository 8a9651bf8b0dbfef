// This module downloads files, and resumes downloads after failures.
import { createHash, randomBytes } from "node:crypto";
import { open, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Writable } from "node:stream";
import type { Client } from "@connectrpc/connect";
import type { Attempts } from "./attempts.js";
import type * as v1 from "./easel/v1/index.js";
import { Damaged } from "./errors.js";
import { values, type ContentInfo } from "./values.js";

type Generations = Client<typeof v1.GenerationService>;

/**
 * Downloads a render's file to a path or a stream. A file appears at the path only when it is complete and on disk. If `to` is
 * a stream, it is not closed.
 */
export async function download(generations: Generations, generationId: string, to: string | Writable, attempts: Attempts): Promise<ContentInfo> {
  if (typeof to !== "string") {
    const write = (data: Uint8Array) => new Promise<void>((resolve, reject) => to.write(data, (error) => (error ? reject(error) : resolve())));
    return fetch(generations, generationId, { write }, attempts);
  }
  if (!((await stat(to).catch(() => undefined))?.isFile() ?? true)) throw new TypeError(`${to} is not a regular file`);
  await removeStale(to);
  const part = join(dirname(to), `.${basename(to)}.${randomBytes(8).toString("hex")}.part`);
  const file = await open(part, "ax"); // creates a new file, and does not follow links
  try {
    const info = await fetch(generations, generationId, { write: (data) => file.writeFile(data), restart: () => file.truncate() }, attempts);
    await file.sync();
    await rename(part, to);
    return info;
  } finally {
    await file.close().finally(() => rm(part, { force: true }));
  }
}

/** Time since the last write, in milliseconds, after which a part file is regarded as abandoned. A running download writes more often. */
const staleMs = 24 * 3_600_000;

/** Removes the part files of killed downloads to the same file, if they are older than staleMs. */
async function removeStale(to: string): Promise<void> {
  for (const name of await readdir(dirname(to)).catch(() => [])) {
    const isPart = name.startsWith(`.${basename(to)}.`) && /^[\w-]+\.part$/.test(name.slice(basename(to).length + 2));
    if (!isPart) continue;
    const part = join(dirname(to), name);
    const { mtimeMs } = await stat(part).catch(() => ({ mtimeMs: Date.now() }));
    if (Date.now() - mtimeMs > staleMs) await rm(part, { force: true }).catch(() => undefined); // if rm fails, the next download tries again
  }
}

/** The destination of the downloaded bytes. */
interface Target {
  write: (data: Uint8Array) => Promise<void>;
  /** Discards the written bytes; undefined if this is not possible. */
  restart?: () => Promise<void>;
}

async function fetch(generations: Generations, generationId: string, target: Target, attempts: Attempts): Promise<ContentInfo> {
  let digest = createHash("sha256");
  let readOffset = 0n;
  let info: v1.ContentInfo | undefined;
  for (;;) {
    try {
      const request = { generationId, readOffset, etag: info?.etag ?? "" }; // with the etag, the server rejects the request if the content has changed
      for await (const { chunk } of generations.downloadGeneration(request, attempts.options)) {
        if (chunk?.offset !== readOffset || crc32c(chunk.data) !== chunk.crc32c) throw new Damaged("downloaded bytes are damaged or missing");
        await target.write(chunk.data);
        digest.update(chunk.data);
        readOffset += BigInt(chunk.data.length);
        info ??= chunk.info;
        attempts.answered();
        if (chunk.summary && chunk.summary.sha256 !== digest.copy().digest("hex")) throw new Damaged("the SHA-256 of the downloaded bytes differs from the server's");
      }
      if (!info) throw new Damaged("the server sent no bytes");
      if (readOffset !== (info.sizeBytes ?? readOffset)) throw new Damaged(`received ${readOffset} of ${info.sizeBytes} bytes`);
      return values.contentInfo(info);
    } catch (error) {
      const lost = !info?.etag && readOffset > 0n; // without an etag, the remaining bytes could belong to different content
      await attempts.pause(error, { last: lost && !target.restart });
      if (!lost) continue;
      await target.restart?.();
      [readOffset, info, digest] = [0n, undefined, createHash("sha256")];
    }
  }
}

const table = Int32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? (n >>> 1) ^ 0x82f63b78 : n >>> 1;
  return n;
});

function crc32c(data: Uint8Array): number {
  let crc = ~0;
  for (const byte of data) crc = (crc >>> 8) ^ (table[(crc ^ byte) & 255] ?? 0);
  return ~crc >>> 0;
}
