//! A set of documents of a segment.

/// The maximum number of documents that [`Docs::for_each_block`] passes at once.
pub(crate) const BLOCK: usize = 64;

/// A set of documents of a segment, with one bit for each document.
#[derive(Clone, Debug)]
pub(crate) struct Docs {
    bits: Vec<u64>,
}

impl Docs {
    /// Returns the empty set for a segment with `max_doc` documents.
    pub(crate) fn empty(max_doc: u32) -> Self {
        Self {
            bits: vec![0; max_doc.div_ceil(64) as usize],
        }
    }

    /// Returns the set of all documents of a segment with `max_doc` documents.
    pub(crate) fn full(max_doc: u32) -> Self {
        let mut docs = Self {
            bits: vec![u64::MAX; max_doc.div_ceil(64) as usize],
        };
        if let (Some(last), rest @ 1..) = (docs.bits.last_mut(), max_doc % 64) {
            *last = (1 << rest) - 1;
        }
        docs
    }

    #[inline]
    pub(crate) fn insert(&mut self, doc: u32) {
        if let Some(bits) = self.bits.get_mut(doc as usize / 64) {
            *bits |= 1 << (doc % 64);
        }
    }

    #[inline]
    pub(crate) fn contains(&self, doc: u32) -> bool {
        self.bits
            .get(doc as usize / 64)
            .is_some_and(|bits| bits & (1 << (doc % 64)) != 0)
    }

    /// Returns whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.bits.iter().all(|&bits| bits == 0)
    }

    /// Returns whether the set contains all documents of `other`.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        self.bits
            .iter()
            .zip(&other.bits)
            .all(|(bits, other)| other & !bits == 0)
    }

    /// Removes all documents.
    pub(crate) fn clear(&mut self) {
        self.bits.fill(0);
    }

    /// Adds the documents of `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        for (bits, other) in self.bits.iter_mut().zip(&other.bits) {
            *bits |= other;
        }
    }

    /// Keeps the documents that are in `other`.
    pub(crate) fn intersect(&mut self, other: &Self) {
        for (bits, other) in self.bits.iter_mut().zip(&other.bits) {
            *bits &= other;
        }
    }

    /// Replaces the set by the documents of `all` that are not in the set.
    pub(crate) fn complement(&mut self, all: &Self) {
        for (bits, all) in self.bits.iter_mut().zip(&all.bits) {
            *bits = all & !*bits;
        }
    }

    /// Returns the smallest document of the set that is at least `doc`.
    #[inline]
    pub(crate) fn next(&self, doc: u32) -> Option<u32> {
        let mut word = doc as usize / 64;
        let mut bits = self.bits.get(word)? & (u64::MAX << (doc % 64));
        while bits == 0 {
            word += 1;
            bits = *self.bits.get(word)?;
        }
        u32::try_from(word * 64)
            .ok()
            .map(|first| first + bits.trailing_zeros())
    }

    /// Calls `f` with the documents, ascending, in blocks of at most [`BLOCK`] documents.
    #[inline]
    pub(crate) fn for_each_block(&self, mut f: impl FnMut(&[u32])) {
        let mut block = [0; BLOCK];
        for (first, &bits) in (0..).step_by(BLOCK).zip(&self.bits) {
            let mut bits = bits;
            let mut len = 0;
            while bits != 0 {
                block[len] = first + bits.trailing_zeros();
                len += 1;
                bits &= bits - 1;
            }
            if len > 0 {
                f(&block[..len]);
            }
        }
    }

    /// Calls `f` with each document, ascending.
    pub(crate) fn for_each(&self, mut f: impl FnMut(u32)) {
        self.for_each_block(|block| block.iter().for_each(|&doc| f(doc)));
    }

    /// Returns the number of documents.
    pub(crate) fn len(&self) -> u32 {
        self.bits.iter().map(|bits| bits.count_ones()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(docs: &Docs) -> Vec<u32> {
        let mut list = Vec::new();
        docs.for_each(|doc| list.push(doc));
        list
    }

    #[test]
    fn sets_have_the_usual_operations() {
        let mut docs = Docs::empty(130);
        assert!(docs.is_empty());
        for doc in [129, 0, 64, 63] {
            docs.insert(doc);
        }
        assert_eq!(listed(&docs), [0, 63, 64, 129]);
        assert_eq!(
            (docs.next(1), docs.next(65), docs.next(130)),
            (Some(63), Some(129), None)
        );
        let mut others = docs.clone();
        others.complement(&Docs::full(130));
        assert_eq!(others.len(), 126);
        assert!(others.contains(1) && !others.contains(0) && !others.contains(129));
        assert!(!others.includes(&docs));
        others.add(&docs);
        assert!(others.includes(&docs));
        others.intersect(&docs);
        assert_eq!(listed(&others), listed(&docs));
        others.clear();
        assert!(others.is_empty());
        assert_eq!(Docs::full(64).len(), 64);
        assert!(Docs::full(0).is_empty());
    }
}
