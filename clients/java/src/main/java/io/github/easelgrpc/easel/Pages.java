package io.github.easelgrpc.easel;

import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Function;

/** An iterator over the rows of type T on pages of type R. It requests each page when the first row of the page is needed. */
final class Pages<R, T> implements Iterator<T> {
  private final Function<String, R> read; // function that requests the page with a given token
  private final Function<R, List<T>> rows;
  private final Function<R, String> next;
  private Iterator<T> page = List.<T>of().iterator();
  private String token = ""; // token of the next page; empty for the first page, null after the last page

  Pages(Function<String, R> read, Function<R, List<T>> rows, Function<R, String> next) {
    this.read = read;
    this.rows = rows;
    this.next = next;
  }

  @Override
  public boolean hasNext() {
    while (!page.hasNext() && token != null) {
      var answer = read.apply(token);
      page = rows.apply(answer).iterator();
      token = next.apply(answer).isEmpty() ? null : next.apply(answer);
    }
    return page.hasNext();
  }

  @Override
  public T next() {
    if (!hasNext()) {
      throw new NoSuchElementException("no more rows");
    }
    return page.next();
  }
}
