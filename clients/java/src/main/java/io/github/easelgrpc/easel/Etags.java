package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.Generation;
import io.github.easelgrpc.easel.v1.State;
import io.github.easelgrpc.easel.v1.WatchGenerationsRequest;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/** The etags of the generations in a watch. If there are more than MOST, the oldest etag is removed. */
final class Etags {
  private static final int MOST = 10_000; // maximum number of etags that a watch stores
  private static final int MOST_WANTED = 1000; // maximum number of etags in a request

  private final boolean named; // whether the request lists generation IDs
  private final Map<String, String> known = new LinkedHashMap<>(); // etags, keyed by generation ID; the generation that changed most recently is last
  // IDs of the succeeded and refunded renders that wanted() omits; always empty if the request lists generation IDs
  private final Set<String> finished = new HashSet<>();

  Etags(WatchGenerationsRequest request) {
    named = request.getGenerationIdsCount() > 0;
    request.getKnownEtagsMap().forEach(this::remember);
  }

  /**
   * Returns the etags of the most recent changes for the next request, at most MOST_WANTED. If the request lists no generation
   * IDs, the etags of succeeded and refunded renders are omitted. Each of them could cost the server an extra request to the
   * catalog.
   */
  Map<String, String> wanted() {
    var ids = new ArrayList<>(known.keySet());
    ids.removeAll(finished);
    var wanted = new LinkedHashMap<String, String>();
    ids.subList(Math.max(ids.size() - MOST_WANTED, 0), ids.size()).forEach(id -> wanted.put(id, known.get(id)));
    return wanted;
  }

  /**
   * Stores the etag of an update, and reports whether the update is new. If the watch has no list of generation IDs, the etag
   * of a deleted generation is removed.
   */
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
