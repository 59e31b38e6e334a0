//! Reads the result of the mail server's spam filter from one configured header field. Supports the
//! fields of `SpamAssassin` (`X-Spam-Status`, `X-Spam-Flag`) and Rspamd (`X-Spamd-Result`,
//! `X-Spam`).
//!
//! [`authentication`](crate::message::authentication) decides which fields are trusted.

/// The result of the mail server's spam filter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spam {
    /// The decision of the filter.
    pub verdict: SpamVerdict,
    /// The score of the filter.
    pub score: Option<f64>,
}

/// The decision of a spam filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpamVerdict {
    /// The message is spam.
    Spam,
    /// The message is not spam.
    Ham,
    /// There is no trusted result.
    #[default]
    None,
}

impl Spam {
    /// Reads the topmost field with this name. Each field consists of a name and a value.
    pub(super) fn of<'h>(
        mut fields: impl Iterator<Item = (&'h [u8], &'h [u8])>,
        name: &str,
    ) -> Self {
        if name.is_empty() {
            return Self::default();
        }
        let field = fields.find(|(found, _)| {
            let found = found.trim_ascii_end();
            found.eq_ignore_ascii_case(name.as_bytes())
        });
        let value = field.map(|(_, value)| String::from_utf8_lossy(value));
        value.map(|value| parse(&value)).unwrap_or_default()
    }
}

fn parse(value: &str) -> Spam {
    let value = value.trim();
    // Rspamd writes the name of its metric first.
    let rest = value.strip_prefix("default:").unwrap_or(value).trim_start();
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric());
    let word = rest[..end.unwrap_or(rest.len())].to_ascii_lowercase();
    Spam {
        verdict: match word.as_str() {
            "yes" | "true" | "spam" => SpamVerdict::Spam,
            "no" | "false" | "ham" => SpamVerdict::Ham,
            _ => SpamVerdict::None,
        },
        score: ["score=", "hits=", "["]
            .into_iter()
            .find_map(|before| number(rest.split_once(before)?.1))
            .or_else(|| rest.parse().ok().filter(|score: &f64| score.is_finite())),
    }
}

/// Returns the number at the beginning of a text.
fn number(text: &str) -> Option<f64> {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.');
    let text = text.trim_start();
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    text[..end]
        .parse()
        .ok()
        .filter(|score: &f64| score.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_usual_filters_are_read() {
        let (spam, ham, none) = (SpamVerdict::Spam, SpamVerdict::Ham, SpamVerdict::None);
        for (value, verdict, score) in [
            (" Yes, score=12.3 required=5.0 tests=A,B", spam, Some(12.3)),
            ("No, score=-1.9\r\n required=5.0", ham, Some(-1.9)),
            ("No, hits=0.1 required=5.0", ham, Some(0.1)),
            (
                "default: False [3.20 / 15.00];\r\n A(0.1)[b]",
                ham,
                Some(3.2),
            ),
            ("default: True [15.5 / 15.00]", spam, Some(15.5)),
            ("YES", spam, None),
            ("no", ham, None),
            ("4.5", none, Some(4.5)),
            ("yesterday", none, None),
            ("inf", none, None),
            ("score=1.2.3", none, None),
            ("", none, None),
        ] {
            assert_eq!(parse(value), Spam { verdict, score }, "{value}");
        }
    }

    #[test]
    fn the_topmost_field_counts() {
        let fields = [("X-A", "no"), ("x-spam ", "yes"), ("X-Spam", "no")];
        let fields = || {
            fields
                .iter()
                .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
        };
        assert_eq!(Spam::of(fields(), "X-Spam").verdict, SpamVerdict::Spam);
        assert_eq!(Spam::of(fields(), "").verdict, SpamVerdict::None);
        assert_eq!(Spam::of(fields(), "X-B").verdict, SpamVerdict::None);
    }
}
