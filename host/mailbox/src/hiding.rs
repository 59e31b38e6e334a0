//! Hides from a grant what its policy does not let the grant see: codes and links for signing in,
//! attachments, and the notices of the service to the owner. Each operation that returns texts of
//! messages calls this module at its end, so caches and indexes contain the complete texts.

use std::borrow::Cow;

use latchmail_core::policy;
use latchmail_mime::codes::{has_codes, has_codes_in_source, has_links, hide};
use latchmail_mime::{Fields, new_text};

use crate::access::Access;
use crate::drafts::StoredDraft;
use crate::error::Error;
use crate::index::results::{Hit, Thread};
use crate::message::notice::is_notice;
use crate::message::types::{Attachment, Detail, Summary};

/// The beginning of the header field of notices.
const NOTICE_FIELD: &[u8] = b"X-Latchmail-Notice:";

/// Returns `true` if the caller can see a message with these flags.
pub(crate) fn is_visible(access: &Access, flags: &[String]) -> bool {
    access.grant.is_none() || !is_notice(flags)
}

/// Returns `true` if the caller can see a message with this header. Only for operations that do not
/// read the flags: a stranger can write the header field of notices, but not their keyword.
pub(crate) fn is_visible_header(access: &Access, header: &[u8]) -> bool {
    let mut lines = header.split(|byte| *byte == b'\n');
    let is_notice = |line: &[u8]| {
        let name = line.get(..NOTICE_FIELD.len());
        name.is_some_and(|name| name.eq_ignore_ascii_case(NOTICE_FIELD))
    };
    access.grant.is_none() || !lines.any(is_notice)
}

/// Hides the codes in summaries, and removes the messages that the caller does not see.
pub(crate) fn in_summaries(access: &Access, summaries: &mut Vec<Summary>) {
    if access.grant.is_none() {
        return;
    }
    summaries.retain(|summary| is_visible(access, &summary.flags));
    for summary in summaries {
        in_summary(access, summary);
    }
}

/// Hides the codes in hits, and removes the messages that the caller does not see.
pub(crate) fn in_hits(access: &Access, hits: &mut Vec<Hit>) {
    if access.grant.is_none() {
        return;
    }
    hits.retain(|hit| is_visible(access, &hit.summary.flags));
    for hit in hits {
        in_hit(access, hit);
    }
}

/// Hides the codes in threads, and removes threads whose newest message the caller does not see.
pub(crate) fn in_threads(access: &Access, threads: &mut Vec<Thread>) {
    if access.grant.is_none() {
        return;
    }
    threads.retain(|thread| is_visible(access, &thread.newest.summary.flags));
    for thread in threads.iter_mut().filter(|_| access.hides_codes()) {
        in_hit(access, &mut thread.newest);
        // The preview can show that a number in the subject is a code.
        let Summary {
            subject, preview, ..
        } = &mut thread.newest.summary;
        hide(&mut [&mut thread.subject, subject, preview]);
    }
}

fn in_hit(access: &Access, hit: &mut Hit) {
    if !access.hides_codes() {
        return;
    }
    let snippet = hit.snippet.as_ref();
    let subject = &hit.summary.subject;
    if snippet.is_some_and(|snippet| has_codes(&[subject, &snippet.text])) {
        // The positions of the matches refer to the complete text.
        hit.snippet = None;
    }
    in_summary(access, &mut hit.summary);
}

fn in_summary(access: &Access, summary: &mut Summary) {
    if access.hides_codes() {
        hide(&mut [&mut summary.subject, &mut summary.preview]);
    }
}

/// Hides codes and attachments in a message. Returns `None` if the caller does not see the message.
pub(crate) fn in_detail(access: &Access, mut detail: Detail) -> Option<Detail> {
    if !is_visible(access, &detail.summary.flags) {
        return None;
    }
    if access.hides_attachments() {
        detail.attachments.clear();
    }
    if access.hides_codes() {
        let mut own = [
            std::mem::take(&mut detail.summary.subject),
            std::mem::take(&mut detail.summary.preview),
            detail.new_text.take().unwrap_or_default(),
        ];
        let had_new_text = !own[2].is_empty();
        let hidden = in_content(&mut detail.text, &mut detail.html, &mut own);
        let [subject, preview, new] = own;
        detail.summary.subject = subject;
        detail.summary.preview = preview;
        detail.new_text = if hidden {
            new_text(detail.text.as_deref(), None)
        } else {
            had_new_text.then_some(new)
        };
    }
    Some(detail)
}

/// Hides codes and attachments in a draft.
pub(crate) fn in_draft(access: &Access, draft: &mut StoredDraft) {
    if access.hides_attachments() {
        draft.attachments.clear();
    }
    if access.hides_codes() {
        let mut own = [std::mem::take(&mut draft.subject)];
        in_content(&mut draft.text, &mut draft.html, &mut own);
        let [subject] = own;
        draft.subject = subject;
    }
}

/// Returns `true` if a part of a draft is hidden from the caller.
pub(crate) fn hides_in_draft(access: &Access, draft: &StoredDraft) -> bool {
    let mut shown = draft.clone();
    in_draft(access, &mut shown);
    shown != *draft
}

/// Hides the codes in the text, the HTML and other texts of a message. If the HTML has codes or
/// links for signing in, the visible text replaces it, because tags can divide a code. Returns
/// `true` if something was hidden.
pub(crate) fn in_content(
    text: &mut Option<String>,
    html: &mut Option<String>,
    others: &mut [String],
) -> bool {
    let mut visible = html.as_deref().map(latchmail_html::visible_text);
    let has_secrets = html.as_deref().is_some_and(|html| {
        let texts = others.iter().chain(&visible).chain(text.iter());
        let texts: Vec<&str> = texts.map(String::as_str).collect();
        has_codes_in_source(html, &texts)
    });
    let mut all: Vec<&mut String> = others.iter_mut().collect();
    all.extend(text.as_mut());
    all.extend(visible.as_mut());
    let hidden = hide(&mut all) || has_secrets;
    if hidden && let Some(visible) = visible {
        *html = None;
        if text.is_none() {
            *text = Some(visible);
        }
    }
    hidden
}

/// Hides the codes in header fields.
pub(crate) fn in_fields(access: &Access, mut fields: Fields) -> Fields {
    if access.hides_codes() {
        let values = fields.fields.iter_mut().map(|field| &mut field.value);
        let mut values: Vec<&mut String> = values.collect();
        hide(&mut values);
    }
    fields
}

/// Checks that the caller may read complete messages in their stored form.
///
/// # Errors
/// Returns [`Error::Policy`] if the stored form could contain what must be hidden.
pub(crate) fn require_raw(access: &Access) -> Result<(), Error> {
    if access.hides_codes() || access.hides_attachments() {
        let what = "reading messages in their stored form";
        return Err(Error::Policy(policy::denied(what)));
    }
    Ok(())
}

/// Checks that the caller may read attachments.
///
/// # Errors
/// Returns [`Error::Policy`] if the policy hides attachments.
pub(crate) fn require_attachments(access: &Access) -> Result<(), Error> {
    if access.hides_attachments() {
        return Err(Error::Policy(policy::denied("attachments")));
    }
    Ok(())
}

/// Returns `true` if the content of an attachment must be searched for codes before the caller
/// reads it: text, and messages in a message.
pub(crate) fn must_search(access: &Access, attachment: &Attachment) -> bool {
    let kind = attachment.content_type.as_str();
    let is_text = kind.starts_with("text/")
        || kind.starts_with("message/")
        || ["json", "xml", "calendar", "eml", "yaml"]
            .iter()
            .any(|word| kind.contains(word));
    let name = attachment.filename.to_ascii_lowercase();
    let extensions = [
        ".txt", ".eml", ".html", ".htm", ".csv", ".md", ".json", ".xml", ".ics",
    ];
    access.hides_codes() && (is_text || extensions.iter().any(|end| name.ends_with(end)))
}

/// Checks that the content of an attachment has no codes. Base64 and quoted-printable parts of an
/// attached message are not searched, so an attached message is refused in general.
///
/// # Errors
/// Returns [`Error::Policy`] if the caller may not read the content.
pub(crate) fn require_no_codes(attachment: &Attachment, content: &[u8]) -> Result<(), Error> {
    let is_message = attachment.content_type.starts_with("message/")
        || attachment.filename.to_ascii_lowercase().ends_with(".eml");
    let text: Cow<'_, str> = String::from_utf8_lossy(content);
    let visible = latchmail_html::visible_text(&text);
    let texts = [&*text, &visible, &attachment.filename];
    // In UTF-16, each letter of ASCII has a zero byte.
    if is_message || text.contains('\0') || has_codes(&texts) || has_links(&text, &texts) {
        let what = "reading an attachment with a code or a link for signing in";
        return Err(Error::Policy(policy::denied(what)));
    }
    Ok(())
}
