//! The quotation of the original in a reply, and the content of the original in a forward.

use std::fmt::Write as _;

use latchmail_html::{Sanitizing, escaped, sanitized};
use latchmail_mime::Address;

use crate::files::{File, Files};
use crate::locale::Locale;
use crate::original::Original;
use crate::{MAX_QUOTATION, quote_text, references};

/// Maximum number of addresses of a field in a forward.
const MAX_ADDRESSES: usize = 100;

/// The texts and files of the original in a new message.
#[derive(Debug, Default)]
pub(crate) struct Quotation {
    pub(crate) text: Option<String>,
    pub(crate) html: Option<String>,
    pub(crate) files: Vec<File>,
}

impl Quotation {
    /// Returns the quotation in a reply: the line with the author and the date, and the text
    /// without the signature. The only files are the pictures that the HTML shows.
    pub(crate) fn of_reply(original: &Original, locale: Locale) -> Self {
        let content = &original.content;
        let mut lines = quote_text::lines(content);
        quote_text::remove_signature(&mut lines);
        let attribution = attribution(original, locale);
        let mut text = String::new();
        if !lines.is_empty() {
            if let Some(attribution) = &attribution {
                let _ = writeln!(text, "{attribution}");
            }
            quote_text::quote(&mut text, &lines);
        }
        let mut files = Files::of(original);
        let html = content.html.as_ref().map(|html| {
            let quoted = inner_html(html, &mut files, true);
            let mut html = String::with_capacity(quoted.len() + 200);
            if let Some(attribution) = &attribution {
                // Mail clients and the new text of a reply recognize the introduction by this id.
                let _ = write!(html, "<p id=\"reply-intro\">{}</p>", escaped(attribution));
            }
            html.push_str("<blockquote type=\"cite\"");
            if let Some(id) = references::message_id(&original.header.message_id) {
                let id = id.trim_matches(['<', '>']);
                let _ = write!(html, " cite=\"mid:{}\"", escaped(id));
            }
            let _ = write!(html, ">{quoted}</blockquote>");
            html
        });
        Self {
            text: (!text.is_empty()).then_some(text),
            html,
            files: files.shown(),
        }
    }

    /// Returns the content of a forward: some header fields, the text and all attachments.
    pub(crate) fn of_forward(original: &Original, locale: Locale) -> Self {
        let content = &original.content;
        let (title, fields) = header(original, locale);
        let mut text = format!("{title}\n");
        for (name, value) in &fields {
            let _ = writeln!(text, "{name} {value}");
        }
        text.push('\n');
        quote_text::copy(&mut text, &quote_text::lines(content));
        let mut files = Files::of(original);
        let html = content.html.as_ref().map(|html| {
            let quoted = inner_html(html, &mut files, false);
            // Thunderbird and the new text of a reply recognize a forwarded message by this class.
            let mut html = String::from("<div class=\"moz-forward-container\"><p>");
            html.push_str(&title);
            for (name, value) in &fields {
                let _ = write!(html, "<br><b>{name}</b> {}", escaped(value));
            }
            let _ = write!(html, "</p>{quoted}</div>");
            html
        });
        Self {
            text: Some(text),
            html,
            files: files.all(),
        }
    }
}

fn inner_html(html: &str, files: &mut Files<'_>, without_signatures: bool) -> String {
    let sanitized = sanitized(
        html,
        Sanitizing {
            content_id: &mut |id| files.show(id),
            without_signatures,
            limit: MAX_QUOTATION,
        },
    );
    sanitized.html.trim().to_owned()
}

/// Returns the line before a quotation. Returns `None` if the author is not known.
fn attribution(original: &Original, locale: Locale) -> Option<String> {
    let header = &original.header;
    let authors = [&header.from, &original.fields.sender];
    let author = authors.into_iter().flatten().next().map(written)?;
    let date = date(original, locale);
    (!author.is_empty()).then(|| locale.attribution(date.as_deref(), &author))
}

fn date(original: &Original, locale: Locale) -> Option<String> {
    locale.date(original.header.date?, original.fields.offset)
}

/// Returns the title and the header fields of a forwarded message. Empty fields are omitted.
fn header(original: &Original, locale: Locale) -> (String, Vec<(&'static str, String)>) {
    let (header, labels) = (&original.header, locale.labels());
    let fields = [
        (labels.from, list(&header.from)),
        (labels.date, date(original, locale).unwrap_or_default()),
        (labels.subject, header.subject.clone()),
        (labels.to, list(&header.to)),
        (labels.cc, list(&header.cc)),
    ];
    let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
    let title = format!("---------- {} ----------", labels.title);
    (title, fields.collect())
}

fn list(addresses: &[Address]) -> String {
    let shown = addresses.iter().take(MAX_ADDRESSES).map(written);
    let mut list = shown.collect::<Vec<_>>().join(", ");
    if addresses.len() > MAX_ADDRESSES {
        list.push_str(", \u{2026}");
    }
    list
}

fn written(address: &Address) -> String {
    match (address.name.as_str(), address.address.as_str()) {
        ("", address) => address.to_owned(),
        (name, "") => name.to_owned(),
        (name, address) => format!("{name} <{address}>"),
    }
}
