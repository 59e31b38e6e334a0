/** Lists with several pages. */

/**
 * Yields the elements of all pages of a list. `list` is an operation that returns a page, `key` is the
 * name of the list in the response, and `params` are the parameters of the first page:
 *
 *     paginate((params) => client.mail.listMessages(params), 'messages', { folder: 'INBOX' })
 *
 * Pages follow `nextCursor` if the response has one. Otherwise they are counted with `page` until
 * `total` elements were listed.
 */
export async function* paginate<
    P extends object,
    K extends string,
    R extends { total?: number; nextCursor?: string | null } & { [key in K]: readonly unknown[] },
>(list: (params: P) => Promise<R>, key: K, params: P): AsyncGenerator<R[K][number], void, undefined> {
    let next: P & { cursor?: string; page?: number } = { ...params };
    for (let page = next.page ?? 1, listed = 0; ; page += 1) {
        const response = await list(next);
        const elements: R[K] = response[key];
        listed += elements.length;
        yield* elements as Iterable<R[K][number]>;
        if (typeof response.nextCursor === 'string') {
            next = { ...next, cursor: response.nextCursor };
            delete next.page;
        } else if (response.nextCursor === null || elements.length === 0 || listed >= (response.total ?? 0)) {
            return;
        } else {
            next = { ...next, page: page + 1 };
        }
    }
}
