//! Joins the lines of paragraphs in `format=flowed` (RFC 3676).

use super::parameters;

/// The separator of a signature. This line is never joined (RFC 3676, section 4.3).
const SIGNATURE: &str = "-- ";

/// The format of the lines of a plain text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Flow {
    /// Each line is a line.
    #[default]
    Fixed,
    /// A line that ends with a space continues on the next line. With `del_sp`, this space is not
    /// part of the text.
    Flowed { del_sp: bool },
}

impl Flow {
    /// Reads the parameters of a Content-Type field.
    pub(super) fn of(content_type: &str) -> Self {
        let is = |name, value: &str| {
            let found = parameters::token(content_type, name);
            found.is_some_and(|found| found.eq_ignore_ascii_case(value))
        };
        if is("format", "flowed") {
            Self::Flowed {
                del_sp: is("delsp", "yes"),
            }
        } else {
            Self::Fixed
        }
    }

    /// Returns the text with one line for each paragraph.
    pub(super) fn joined(self, text: String) -> String {
        match self {
            Self::Fixed => text,
            Self::Flowed { del_sp } => joined(&text, del_sp),
        }
    }
}

fn joined(text: &str, del_sp: bool) -> String {
    let mut output = String::with_capacity(text.len());
    // The quote depth of the paragraph that continues on the next line.
    let mut continued = None;
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        if line.is_empty() && lines.peek().is_none() {
            // The text ends with a line break.
            break;
        }
        let line = line.strip_suffix('\r').unwrap_or(line);
        let content = line.trim_start_matches('>');
        let depth = line.len() - content.len();
        // A space before the content is not part of the text (RFC 3676, section 4.4).
        let content = content.strip_prefix(' ').unwrap_or(content);
        let is_signature = content == SIGNATURE;
        if continued != Some(depth) || is_signature {
            if !output.is_empty() && !output.ends_with('\n') {
                output.push('\n');
            }
            output.extend(std::iter::repeat_n('>', depth));
            // Without the space, content that begins with `>` would be a quote.
            if depth > 0 && !content.is_empty() || content.starts_with('>') {
                output.push(' ');
            }
        }
        let is_flowed = content.ends_with(' ') && !is_signature;
        let kept = if is_flowed && del_sp {
            &content[..content.len() - 1]
        } else {
            content
        };
        output.push_str(kept);
        continued = is_flowed.then_some(depth);
        if continued.is_none() {
            output.push('\n');
        }
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_are_read() {
        let flowed = |del_sp| Flow::Flowed { del_sp };
        for (field, flow) in [
            ("text/plain", Flow::Fixed),
            ("text/plain; format=fixed; delsp=yes", Flow::Fixed),
            ("text/plain; charset=utf-8; Format=Flowed", flowed(false)),
            ("text/plain; format=\"flowed\"; DelSp=Yes", flowed(true)),
            ("text/plain; delsp=no; format=flowed", flowed(false)),
        ] {
            assert_eq!(Flow::of(field), flow, "{field}");
        }
    }

    #[test]
    fn lines_that_end_with_a_space_are_joined() {
        for (text, expected) in [
            ("", ""),
            ("one \ntwo\nthree\n", "one two\nthree\n"),
            ("one \r\ntwo\r\n\r\nthree", "one two\n\nthree\n"),
            ("one \n", "one "),
            // Another depth ends a paragraph, although the line ends with a space.
            ("> one \n> two \nthree", "> one two \nthree\n"),
            (">> one \n>> two\n>\n> x", ">> one two\n>\n> x\n"),
            (">> one \n> two", ">> one \n> two\n"),
            // A signature is not joined.
            ("one \n-- \nAda", "one \n-- \nAda\n"),
            ("> one \n> -- \n> Ada", "> one \n> -- \n> Ada\n"),
            // Space-stuffed lines.
            (" From me \n to you", "From me to you\n"),
            (" > x", " > x\n"),
            ("  indented", " indented\n"),
        ] {
            assert_eq!(joined(text, false), expected, "{text:?}");
        }
    }

    #[test]
    fn with_delsp_the_space_is_removed() {
        assert_eq!(joined("\u{65e5} \n\u{672c}\n", true), "\u{65e5}\u{672c}\n");
        assert_eq!(joined("one  \ntwo", true), "one two\n");
    }
}
