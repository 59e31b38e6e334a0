//! The parts of a message that have no subparts (the leaves), and the choice of the leaves that are
//! the text of the message.

use std::ops::Range;

use crate::bounds;
use crate::header::Part;

/// A part without subparts.
#[derive(Debug)]
pub(crate) struct Leaf {
    pub(crate) part: Part,
    /// The position of the encoded content in the input, in bytes.
    pub(crate) range: Range<usize>,
    /// The decoded size of the content, in bytes. For the first part of the plain text and of the
    /// HTML, the encoded size.
    pub(crate) size: usize,
    /// `true` if the end of the part was found.
    pub(crate) complete: bool,
    /// `true` if the part is an alternative of another part (RFC 2046, section 5.1.4).
    pub(super) alternative: bool,
    pub(super) place: Place,
}

/// The place of a part in the multiparts that contain the part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// The outermost multipart/alternative that contains the part, as the offset of its body in
    /// bytes, and the number of the alternative (from 1) that contains the part.
    pub(super) branch: Option<(usize, usize)>,
    /// `true` if the part is a resource of another part in a multipart/related (RFC 2387).
    pub(super) is_resource: bool,
}

impl Leaf {
    /// Returns `true` for the disposition `inline`. Without a disposition, a part is inline if the
    /// text can refer to the part (RFC 2387, RFC 2392).
    pub(crate) fn is_inline(&self) -> bool {
        let is_referenced = self.place.is_resource && self.part.content_id.is_some();
        self.part.is_inline.unwrap_or(is_referenced)
    }

    pub(crate) fn is_named(&self) -> bool {
        is_named(&self.part, self.alternative)
    }

    /// Returns `true` if a client shows only one of the two parts, because they are in different
    /// parts of a multipart/alternative.
    fn is_alternative_of(&self, other: &Self) -> bool {
        match (self.place.branch, other.place.branch) {
            (Some((multipart, part)), Some((other_multipart, other_part))) => {
                multipart == other_multipart
                    && (part != other_part || self.alternative || other.alternative)
            }
            _ => false,
        }
    }
}

/// Returns `true` if the part is an attachment because of its file name. An alternative of the text
/// is never an attachment.
pub(super) fn is_named(part: &Part, alternative: bool) -> bool {
    part.filename.is_some() && !alternative
}

/// The structure of a message.
#[derive(Debug, Default)]
pub struct Structure {
    leaves: Vec<Leaf>,
    /// The indexes of the leaves of the plain text and of the HTML, ascending.
    bodies: [Vec<usize>; 2],
    /// `true` if the message exceeded a limit. The structure is then incomplete.
    pub(crate) truncated: bool,
}

impl Structure {
    pub(super) fn new(leaves: Vec<Leaf>, truncated: bool) -> Self {
        let first = |media: &str, named: bool| {
            leaves.iter().position(|leaf| {
                leaf.part.media == media && !leaf.part.is_attachment && leaf.is_named() == named
            })
        };
        let (mut text, mut html) = (first("text/plain", false), first("text/html", false));
        if text.is_none() && html.is_none() {
            // If the message has no other text, use a text part with a file name.
            (text, html) = (first("text/plain", true), first("text/html", true));
        }
        let bodies = bodies(&leaves, [text, html]);
        Self {
            leaves,
            bodies,
            truncated,
        }
    }

    /// Returns the estimated memory of this value, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let leaves = self.leaves.iter();
        let leaves: usize = leaves
            .map(|leaf| size_of::<Leaf>() + leaf.part.text_length())
            .sum();
        let [texts, htmls] = &self.bodies;
        let indexes = texts.len() + htmls.len();
        size_of::<Self>() + leaves + indexes * size_of::<usize>()
    }

    /// Returns the parts of the plain text and the parts of the HTML.
    pub(crate) fn bodies(&self) -> [impl Iterator<Item = &Leaf>; 2] {
        self.bodies
            .each_ref()
            .map(|body| body.iter().filter_map(|index| self.leaves.get(*index)))
    }

    /// Returns the first part of the plain text.
    pub(crate) fn text(&self) -> Option<&Leaf> {
        let [mut texts, _] = self.bodies();
        texts.next()
    }

    /// Returns all leaves except the parts of the plain text and of the HTML.
    pub(crate) fn attachments(&self) -> impl Iterator<Item = &Leaf> {
        self.leaves
            .iter()
            .enumerate()
            .filter(|(index, _)| {
                let mut bodies = self.bodies.iter();
                bodies.all(|body| body.binary_search(index).is_err())
            })
            .map(|(_, leaf)| leaf)
    }
}

/// Returns the leaves of the plain text and the leaves of the HTML. `first` has the first leaf of
/// each. A following leaf of the same type is added if a client shows the leaf below the first leaf
/// (RFC 8621, section 4.1.4). If the message has plain text and HTML, an added leaf must have an
/// alternative in the other text. Otherwise a client that shows only the other text would not show
/// the leaf.
fn bodies(leaves: &[Leaf], first: [Option<usize>; 2]) -> [Vec<usize>; 2] {
    let shown = first.map(|first| shown(leaves, first));
    let [texts, htmls] = &shown;
    let belongs = |index: usize, others: &[usize]| {
        let is_alternative = |other: &usize| leaves[index].is_alternative_of(&leaves[*other]);
        first.contains(&Some(index)) || others.is_empty() || others.iter().any(is_alternative)
    };
    [(texts, htmls), (htmls, texts)].map(|(body, others)| {
        let body = body.iter().copied();
        body.filter(|index| belongs(*index, others)).collect()
    })
}

/// Returns the leaf `first` and the following leaves of the same type that a client shows below
/// `first`.
fn shown(leaves: &[Leaf], first: Option<usize>) -> Vec<usize> {
    let mut shown: Vec<usize> = first.into_iter().collect();
    let Some(first) = first else { return shown };
    for (index, leaf) in leaves.iter().enumerate().skip(first + 1) {
        let is_text = leaf.part.media == leaves[first].part.media
            && !leaf.part.is_attachment
            && !leaf.is_named()
            && !leaf.place.is_resource;
        let is_other = |other: &usize| !leaf.is_alternative_of(&leaves[*other]);
        if is_text && shown.iter().all(is_other) {
            shown.push(index);
        }
        if shown.len() == bounds::BODY_PARTS {
            break;
        }
    }
    shown
}
