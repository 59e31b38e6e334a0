//! Parses the source files of Postfix's lookup tables: virtual(5) (`address target, …`) and
//! aliases(5) (`name: target, …`).
//!
//! The parser does not complete names, and does not check addresses. It never fails: an invalid
//! line becomes an [`InvalidLine`].

/// The format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// virtual(5): white space separates the key from its targets.
    Virtual,
    /// aliases(5): a colon separates the key from its targets.
    Aliases,
}

/// A parsed table.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) format: Format,
    pub(crate) entries: Vec<Result<Entry, InvalidLine>>,
}

/// An entry of a table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The number of the entry's first line.
    pub(crate) line: usize,
    /// The key without quotation marks.
    pub(crate) key: String,
    /// At least one target.
    pub(crate) targets: Vec<Target>,
}

/// The target of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// An address, or a name without a domain. The syntax is not checked.
    Address(String),
    /// `|command`
    Program,
    /// `/file`
    File,
    /// `:include:/file`
    Include,
}

/// A line that is not an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidLine {
    /// The number of the line.
    pub(crate) line: usize,
    /// The key, as written in the file.
    pub(crate) key: String,
    /// The reason, without the line number.
    pub(crate) reason: &'static str,
}

const UNCLOSED: &str = "a quotation mark is not closed";

impl Table {
    /// Parses a table. The table has the format aliases(5) if most entries have a colon after the
    /// key.
    pub(crate) fn parse(text: &str) -> Self {
        let lines = logical_lines(text);
        let with_colon = lines.iter().filter(|(_, line)| has_colon(line)).count();
        let format = if 2 * with_colon > lines.len() {
            Format::Aliases
        } else {
            Format::Virtual
        };
        let entries = lines
            .into_iter()
            .map(|(number, line)| entry(number, &line, format));
        Self {
            format,
            entries: entries.collect(),
        }
    }
}

/// Returns the first column of a table, or the lines of a list, with the line numbers.
pub(crate) fn first_column(text: &str) -> Vec<(usize, String)> {
    let first = |line: &str| line.split_ascii_whitespace().next().map(ToOwned::to_owned);
    logical_lines(text)
        .into_iter()
        .filter_map(|(number, line)| Some((number, first(&line)?)))
        .collect()
}

/// Joins continuation lines, and removes comments and empty lines. Returns each logical line with
/// the number of its first line. As in Postfix, a comment between a line and its continuation does
/// not end the line.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (number, line) in (1..).zip(text.lines()) {
        let content = line.trim_ascii();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let is_continuation = line.starts_with(|c: char| c.is_ascii_whitespace());
        match lines.last_mut() {
            Some((_, last)) if is_continuation => {
                last.push(' ');
                last.push_str(content);
            }
            _ => lines.push((number, line.trim_ascii_end().to_owned())),
        }
    }
    lines
}

fn entry(line: usize, text: &str, format: Format) -> Result<Entry, InvalidLine> {
    let (key, rest) = split_key(text, format);
    let invalid = |reason| InvalidLine {
        line,
        key: key.trim_ascii().to_owned(),
        reason,
    };
    if key.is_empty() {
        return Err(invalid("the key is missing"));
    }
    let rest = match format {
        Format::Virtual => rest,
        Format::Aliases => rest
            .trim_ascii_start()
            .strip_prefix(':')
            .ok_or_else(|| invalid("there is no colon after the name"))?,
    };
    let unquoted = unquote(key).ok_or_else(|| invalid(UNCLOSED))?;
    let targets = words(rest)
        .map(|word| unquote(word).map(|word| Target::of(&word)))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| invalid(UNCLOSED))?;
    if targets.is_empty() {
        return Err(invalid("there is no target"));
    }
    Ok(Entry {
        line,
        key: unquoted,
        targets,
    })
}

impl Target {
    fn of(word: &str) -> Self {
        let is_include = word
            .get(..9)
            .is_some_and(|start| start.eq_ignore_ascii_case(":include:"));
        if is_include {
            Self::Include
        } else if word.starts_with('|') {
            Self::Program
        } else if word.starts_with('/') {
            Self::File
        } else {
            // `\name` is a name that is not expanded again. `<address>` is the form of header
            // fields.
            let word = word.strip_prefix('\\').unwrap_or(word);
            let inner = word.strip_prefix('<').and_then(|w| w.strip_suffix('>'));
            Self::Address(inner.unwrap_or(word).to_owned())
        }
    }
}

/// Returns `true` if the line is an entry of aliases(5).
fn has_colon(line: &str) -> bool {
    let (_, rest) = split_key(line, Format::Aliases);
    let after = rest.trim_ascii_start();
    let is_include = after.len() < rest.len() && after.starts_with(":include:");
    after.starts_with(':') && !is_include
}

/// Splits a line after its key, including quotation marks.
fn split_key(line: &str, format: Format) -> (&str, &str) {
    let end = find_unquoted(line, |c| {
        c.is_ascii_whitespace() || (format == Format::Aliases && c == ':')
    });
    line.split_at(end)
}

/// Returns the words of a text. Commas and white space outside quotation marks separate words.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_separator = |c: char| c == ',' || c.is_ascii_whitespace();
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(is_separator);
        let (word, after) = rest.split_at(find_unquoted(rest, is_separator));
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

/// Returns the position of the first character outside quotation marks for which `is_end` returns
/// `true`. Otherwise returns the length of the text.
fn find_unquoted(text: &str, is_end: impl Fn(char) -> bool) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for (position, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' && quoted {
            escaped = true;
        } else if c == '"' {
            quoted = !quoted;
        } else if !quoted && is_end(c) {
            return position;
        }
    }
    text.len()
}

/// Removes quotation marks, and backslashes in quotation marks. Returns `None` if a quotation mark
/// is not closed.
fn unquote(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        if escaped {
            escaped = false;
            plain.push(c);
        } else if c == '\\' && quoted {
            escaped = true;
        } else if c == '"' {
            quoted = !quoted;
        } else {
            plain.push(c);
        }
    }
    (!quoted).then_some(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(text: &str) -> Target {
        Target::Address(text.into())
    }

    fn entries(text: &str) -> Vec<(usize, String, Vec<Target>)> {
        let entries = Table::parse(text).entries.into_iter();
        entries
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.line, entry.key, entry.targets)
            })
            .collect()
    }

    fn reasons(text: &str) -> Vec<(usize, String, &'static str)> {
        let entries = Table::parse(text).entries.into_iter();
        entries
            .filter_map(Result::err)
            .map(|invalid| (invalid.line, invalid.key, invalid.reason))
            .collect()
    }

    #[test]
    fn a_virtual_table_has_comments_and_continuation_lines() {
        let text = "# comment\n\nSales@Example.org  ada@example.org\ninfo@example.org\r\n\tada@example.org,\n   # comment\n\n  bob@example.org\n\
                    @example.org x\nexample.org anything\n";
        assert_eq!(Table::parse(text).format, Format::Virtual);
        assert_eq!(
            entries(text),
            [
                (
                    3,
                    "Sales@Example.org".into(),
                    vec![address("ada@example.org")]
                ),
                (
                    4,
                    "info@example.org".into(),
                    vec![address("ada@example.org"), address("bob@example.org")]
                ),
                (9, "@example.org".into(), vec![address("x")]),
                (10, "example.org".into(), vec![address("anything")]),
            ]
        );
    }

    #[test]
    fn an_aliases_table_has_a_colon_after_each_key() {
        let text = "postmaster: root\nroot:ada\n\"a b\" : \\bob\nlist: :include:/etc/list\nprogram: \"|/bin/x -a b\", |y\nfile: /var/x\n";
        assert_eq!(Table::parse(text).format, Format::Aliases);
        let targets: Vec<Vec<Target>> = entries(text).into_iter().map(|entry| entry.2).collect();
        assert_eq!(
            targets,
            [
                vec![address("root")],
                vec![address("ada")],
                vec![address("bob")],
                vec![Target::Include],
                vec![Target::Program, Target::Program],
                vec![Target::File],
            ]
        );
        assert_eq!(entries(text)[2].1, "a b");
    }

    #[test]
    fn quotation_marks_are_removed_from_keys_and_targets() {
        let text = r#""sales"@example.org "ada"@example.org <bob@example.org>
"a\"b c"@example.org "x, y"@example.org"#;
        assert_eq!(
            entries(text),
            [
                (
                    1,
                    "sales@example.org".into(),
                    vec![address("ada@example.org"), address("bob@example.org")]
                ),
                (
                    2,
                    "a\"b c@example.org".into(),
                    vec![address("x, y@example.org")]
                ),
            ]
        );
    }

    #[test]
    fn an_include_in_a_virtual_table_is_not_a_colon_after_the_key() {
        let text = "a@example.org :include:/etc/list\n";
        assert_eq!(Table::parse(text).format, Format::Virtual);
        assert_eq!(entries(text)[0].2, [Target::Include]);
    }

    #[test]
    fn an_invalid_line_has_a_number_and_a_reason() {
        assert_eq!(
            reasons(" x@example.org y\na@example.org\nb@example.org ,\nc@example.org \"y\n\"d z\n"),
            [
                (1, String::new(), "the key is missing"),
                (2, "a@example.org".into(), "there is no target"),
                (3, "b@example.org".into(), "there is no target"),
                (4, "c@example.org".into(), UNCLOSED),
                (5, "\"d z".into(), UNCLOSED),
            ]
        );
        assert_eq!(
            reasons("a: b\nc: d\ne f\ng:\n: h\n"),
            [
                (3, "e".into(), "there is no colon after the name"),
                (4, "g".into(), "there is no target"),
                (5, String::new(), "the key is missing"),
            ]
        );
    }

    #[test]
    fn the_first_column_is_read_from_tables_and_lists() {
        let text = "# comment\nexample.org OK\n  more\n\nexample.net\n";
        assert_eq!(
            first_column(text),
            [(2, "example.org".into()), (5, "example.net".into())]
        );
    }

    proptest! {
        #[test]
        fn every_text_is_parsed(text in r#"([a-c@:,"\\|/#<> \t\r\n]|:include:|\PC){0,80}"#) {
            let lines = text.lines().count();
            for entry in Table::parse(&text).entries {
                match entry {
                    Ok(entry) => prop_assert!(entry.line <= lines && !entry.targets.is_empty()),
                    Err(invalid) => prop_assert!(invalid.line <= lines),
                }
            }
            prop_assert!(first_column(&text).len() <= lines);
        }

        #[test]
        fn quoted_words_are_restored(word in "[a-c\"\\\\ ,:@é]{1,10}") {
            let quoted = format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""));
            let text = format!("{quoted} {quoted},x");
            let table = Table::parse(&text);
            prop_assert_eq!(table.format, Format::Virtual);
            let entry = table.entries[0].as_ref().unwrap();
            prop_assert_eq!(&entry.key, &word);
            let expected = Target::of(&word);
            prop_assert_eq!(&entry.targets, &[expected, address("x")]);
        }
    }
}
