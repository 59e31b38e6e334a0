//! The elements that several pages with the frame of [`crate::shell`] contain: forms, buttons,
//! confirmations, tables and times.

use latchmail_core::clock::Timestamp;
use maud::{Markup, html};

/// Renders the hidden field of a form with the token against cross-site request forgery.
pub(crate) fn token(csrf: &str) -> Markup {
    html! { input type="hidden" name="csrf" value=(csrf); }
}

/// Renders a form that consists of one button. `described_by` is the id of the HTML element that
/// names the item that the action changes.
pub(crate) fn button(csrf: &str, action: &str, name: &str, described_by: &str) -> Markup {
    html! {
        form method="post" action=(action) {
            (token(csrf))
            button type="submit" aria-describedby=(described_by) { (name) }
        }
    }
}

/// Renders a form with one field that filters a list. `value` is the current value of the field.
pub(crate) fn search(csrf: &str, action: &str, field: &str, label: &str, value: &str) -> Markup {
    html! {
        form.search method="post" action=(action) role="search" {
            (token(csrf))
            div {
                label for=(field) { (label) }
                input #(field) type="text" name=(field) value=(value) maxlength="320" autocapitalize="none" spellcheck="false";
            }
            button.primary type="submit" { "Search" }
        }
    }
}

/// The page that asks the user to confirm an action.
pub(crate) struct Confirmation<'a> {
    /// The path of the action.
    pub(crate) action: &'a str,
    /// The name of the button.
    pub(crate) button: &'a str,
    /// The path of the page to which the user returns without the action.
    pub(crate) back: &'a str,
    /// Names and values of additional hidden fields of the form.
    pub(crate) fields: &'a [(&'a str, &'a str)],
    /// The consequences of the action.
    pub(crate) text: Markup,
}

impl Confirmation<'_> {
    pub(crate) fn render(&self, csrf: &str) -> Markup {
        html! {
            (self.text)
            form.confirmation method="post" action=(self.action) {
                (token(csrf))
                input type="hidden" name="confirm" value="yes";
                @for (name, value) in self.fields {
                    input type="hidden" name=(name) value=(value);
                }
                button.danger type="submit" { (self.button) }
                a.button href=(self.back) { "Cancel" }
            }
        }
    }
}

/// Renders a table. If the table is wider than the screen, users can scroll it with the keyboard.
/// `caption` names the table.
pub(crate) fn table(caption: &str, headings: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll role="region" aria-label=(caption) tabindex="0" {
            table {
                caption { (caption) }
                thead {
                    tr {
                        @for heading in headings { th scope="col" { (heading) } }
                    }
                }
                tbody { (rows) }
            }
        }
    }
}

/// Renders a time as text in UTC. `millis` is the time in milliseconds since the Unix epoch.
pub(crate) fn time(millis: i64) -> Markup {
    time_of_text(&Timestamp::from_millis(millis).to_string())
}

/// Renders a time from a text in RFC 3339 format, for example the text of a [`Timestamp`].
pub(crate) fn time_of_text(text: &str) -> Markup {
    // The text has the form `2026-01-31T12:00:00.000Z`.
    let shown = match (text.get(..10), text.get(11..19)) {
        (Some(date), Some(time)) => format!("{date} {time} UTC"),
        _ => text.to_owned(),
    };
    html! { time datetime=(text) { (shown) } }
}
