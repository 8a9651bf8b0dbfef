package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.Generation;
import io.github.easelgrpc.easel.v1.State;
import io.github.easelgrpc.easel.v1.WatchGenerationsRequest;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/** The etags of the newest updates that a watch of many generations has had. */
final class Etags {
  private static final int MOST = 10_000; // that a watch remembers
  private static final int MOST_WANTED = 1000; // that a request may have

  private final boolean named; // by the request
  private final Map<String, String> known = new LinkedHashMap<>(); // by id; the one that changed longest ago is the first
  private final Set<String> finished = new HashSet<>(); // where they are not named: what has not changed any more needs no read

  Etags(WatchGenerationsRequest request) {
    named = request.getGenerationIdsCount() > 0;
    request.getKnownEtagsMap().forEach(this::remember);
  }

  /**
   * Those for the next request. The catalog is asked about each that it does not list any more, so those are left out of which
   * nothing more is expected.
   */
  Map<String, String> wanted() {
    var ids = new ArrayList<>(known.keySet());
    ids.removeAll(finished);
    var wanted = new LinkedHashMap<String, String>();
    ids.subList(Math.max(ids.size() - MOST_WANTED, 0), ids.size()).forEach(id -> wanted.put(id, known.get(id)));
    return wanted;
  }

  /** Remembers an update, and reports whether it is new. A deleted generation that nobody named is forgotten. */
  boolean add(Generation generation) {
    var id = generation.getGenerationId();
    if (generation.getEtag().equals(known.get(id))) {
      return false;
    }
    forget(id);
    if (named || generation.getState() != State.STATE_DELETED) {
      remember(id, generation.getEtag());
    }
    if (!named && (generation.getState() == State.STATE_SUCCEEDED || generation.getState() == State.STATE_REFUNDED)) {
      finished.add(id);
    }
    return true;
  }

  private void remember(String id, String etag) {
    known.put(id, etag);
    if (known.size() > MOST) {
      forget(known.keySet().iterator().next());
    }
  }

  private void forget(String id) {
    known.remove(id);
    finished.remove(id);
  }
}
