// Runs an asynchronous function over a stream with a bounded number of calls under way, results in input order.

/** Yields `fn(item)` for every item, `width` of them at work at a time. */
export async function* inOrder<A, B>(
  items: AsyncIterable<A>,
  width: number,
  fn: (item: A) => Promise<B>,
): AsyncGenerator<B> {
  const running: Promise<B>[] = [];
  for await (const item of items) {
    const result = fn(item);
    result.catch(() => {}); // reported when its turn comes, not as an unhandled rejection before
    running.push(result);
    if (running.length >= width) yield await (running.shift() as Promise<B>);
  }
  while (running.length > 0) yield await (running.shift() as Promise<B>);
}
