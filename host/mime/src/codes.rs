//! Finds codes and links for signing in: one-time codes, links that sign in, and links that reset a
//! password. Programs that act for a person must not see them, because each of them opens an
//! account of the person elsewhere.
//!
//! The search is a heuristic over words. A message that speaks of signing in loses all its codes
//! and links, because the layout of such messages differs. In other messages, only a number
//! directly beside the word "code" and links with the words of such links are found.

mod words;

use std::ops::{Range, RangeInclusive};

use latchmail_shape::invisible;

use self::words::{CODE_WORDS, LINK_WORDS, MEETING, OTHER_CODES, SIGN_IN};

/// The text in place of a code.
const HIDDEN_CODE: &str = "[hidden code]";
/// The text in place of a link.
const HIDDEN_LINK: &str = "[hidden link]";

/// Lengths of codes, in digits or in characters.
const CODE_LENGTH: RangeInclusive<usize> = 4..=12;
/// Maximum distance between a code and the word for it, in bytes.
const NEAR: usize = 48;
/// Minimum length of the secret in a link.
const TOKEN: usize = 16;

/// Replaces the codes and links in the texts of one message, for example in its subject and its
/// preview. Returns `true` if something was replaced.
pub fn hide(texts: &mut [&mut String]) -> bool {
    let speaks = texts.iter().any(|text| speaks_of_signing_in(text));
    let mut is_hidden = false;
    for text in texts {
        let found = find(text, speaks);
        is_hidden |= !found.is_empty();
        for (range, replacement) in found.into_iter().rev() {
            text.replace_range(range, replacement);
        }
    }
    is_hidden
}

/// Returns `true` if one of the texts of a message has a code or a link for signing in.
#[must_use]
pub fn has_codes(texts: &[&str]) -> bool {
    let speaks = texts.iter().any(|text| speaks_of_signing_in(text));
    texts.iter().any(|text| !find(text, speaks).is_empty())
}

/// Returns `true` if a link of an HTML document is a link for signing in. `texts` are other texts
/// of the message.
#[must_use]
pub fn has_links(html: &str, texts: &[&str]) -> bool {
    let speaks = texts.iter().any(|text| speaks_of_signing_in(text));
    links(html).any(|range| is_sign_in_link(&html[range], speaks))
}

/// Returns `true` if the source of an HTML document has a link for signing in. If the message
/// speaks of signing in, also returns `true` if the source has a code, for example in a part that
/// readers do not see. `texts` are other texts of the message.
#[must_use]
pub fn has_codes_in_source(html: &str, texts: &[&str]) -> bool {
    let mut all = texts.iter().chain(std::iter::once(&html));
    let speaks = all.any(|text| speaks_of_signing_in(text));
    (speaks && !candidates(html).is_empty())
        || links(html).any(|range| is_sign_in_link(&html[range], speaks))
}

/// Returns `true` if a reader does not see the character, also between two digits.
fn is_invisible(c: char) -> bool {
    invisible(c).is_some() || matches!(c, '\u{ad}' | '\u{200c}' | '\u{200d}')
}

fn speaks_of_signing_in(text: &str) -> bool {
    let folded = folded(text);
    SIGN_IN.iter().any(|phrase| contains_word(&folded, phrase))
}

/// Returns the text in lower case, with single spaces and plain hyphens.
fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            c if is_invisible(c) => {}
            '\u{2010}'..='\u{2015}' => folded.push('-'),
            c if c.is_whitespace() => {
                if !folded.ends_with(' ') {
                    folded.push(' ');
                }
            }
            c => folded.extend(c.to_lowercase()),
        }
    }
    folded
}

/// Returns `true` if the text contains the phrase, and no letter directly before or after it. A
/// phrase of a script without spaces can be anywhere.
fn contains_word(text: &str, phrase: &str) -> bool {
    let is_spaced = phrase.chars().any(|c| c.is_ascii_alphabetic());
    text.match_indices(phrase).any(|(at, _)| {
        let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        !is_spaced || !(is_letter(before) || is_letter(after))
    })
}

/// Returns what must be hidden in a text, in order and without overlaps. `speaks` is `true` if the
/// message speaks of signing in.
fn find(text: &str, speaks: bool) -> Vec<(Range<usize>, &'static str)> {
    let links: Vec<Range<usize>> = links(text).collect();
    let hidden_links = links.iter().filter(|link| {
        let link = &text[link.start..link.end];
        is_sign_in_link(link, speaks)
    });
    let mut found: Vec<_> = hidden_links
        .map(|link| (link.clone(), HIDDEN_LINK))
        .collect();
    let is_in_link = |code: &Range<usize>| {
        let mut links = links.iter();
        links.any(|link| link.start < code.end && code.start < link.end)
    };
    let mut candidates = candidates(text);
    if !speaks && !candidates.is_empty() {
        // The numbers with which people join a meeting are not codes for signing in.
        let folded = folded(text);
        if MEETING.iter().any(|phrase| folded.contains(phrase)) {
            candidates.clear();
        }
    }
    let codes = candidates.into_iter().filter(|candidate| {
        let is_code = if speaks {
            !is_year(&text[candidate.clone()]) || is_near_code_word(text, candidate)
        } else {
            is_near_code_word(text, candidate)
        };
        is_code && !is_in_link(candidate)
    });
    found.extend(codes.map(|code| (code, HIDDEN_CODE)));
    if speaks {
        let words = words_of(text).filter(|word| is_unusual_code(&text[word.clone()]));
        let codes = words.filter(|word| is_near_code_word(text, word) && !is_in_link(word));
        found.extend(codes.map(|code| (code, HIDDEN_CODE)));
    }
    found.sort_by_key(|(range, _)| range.start);
    found
}

/// Returns the links of a text.
fn links(text: &str) -> impl Iterator<Item = Range<usize>> {
    let starts = text.match_indices("://").filter_map(move |(at, _)| {
        let scheme = &text.as_bytes()[..at];
        let has = |name: &[u8]| {
            let start = scheme.len().checked_sub(name.len())?;
            scheme[start..].eq_ignore_ascii_case(name).then_some(start)
        };
        has(b"https").or_else(|| has(b"http"))
    });
    starts.map(move |start| {
        let ends = |c: char| c.is_whitespace() || "<>\"'`|\\^{}".contains(c);
        let length = text[start..].find(ends).unwrap_or(text.len() - start);
        let link =
            text[start..start + length].trim_end_matches(['.', ',', ';', ':', ')', ']', '!']);
        start..start + link.len()
    })
}

fn is_sign_in_link(link: &str, speaks: bool) -> bool {
    let after = link.split_once("://").map_or("", |(_, after)| after);
    let path = after.find(['/', '?', '#']).map_or("", |at| &after[at..]);
    if speaks {
        return path.len() > 1;
    }
    let is_token = |part: &str| {
        let has_digit = part.bytes().any(|byte| byte.is_ascii_digit());
        part.len() >= TOKEN && has_digit && !part.contains("utm_")
    };
    let separators = ['/', '?', '&', '=', '#', ';'];
    let folded = path.to_ascii_lowercase();
    path.split(separators).any(is_token) && LINK_WORDS.iter().any(|word| folded.contains(word))
}

/// Returns the words, and pairs or triples of numbers, that have the form of a code.
fn candidates(text: &str) -> Vec<Range<usize>> {
    let words: Vec<Range<usize>> = words_of(text).collect();
    let mut found = Vec::new();
    let mut next = 0;
    while let Some(word) = words.get(next) {
        // A code can be written in groups of digits: `123 456`.
        let is_group = |word: &&Range<usize>| {
            let length = digits(&text[(*word).clone()]);
            length.is_some_and(|length| (1..=4).contains(&length))
        };
        let groups = words[next..].iter().take_while(is_group);
        let groups: Vec<&Range<usize>> = groups
            .scan(word.start, |end, group| {
                let gap = &text[*end..group.start];
                *end = group.end;
                let is_near = gap.chars().all(|c| c == ' ' || c == '\u{a0}') && gap.len() <= 4;
                is_near.then_some(group)
            })
            .collect();
        let total: usize = groups
            .iter()
            .filter_map(|one| digits(&text[(*one).clone()]))
            .sum();
        let same =
            |one: &&Range<usize>| digits(&text[(*one).clone()]) == digits(&text[word.clone()]);
        if groups.len() > 1 && (6..=10).contains(&total) && groups.iter().all(same) {
            let last = groups.last().map_or(word.end, |group| group.end);
            found.push(word.start..last);
            next += groups.len();
            continue;
        }
        if is_code(&text[word.clone()]) {
            found.push(word.clone());
        }
        next += 1;
    }
    found
}

/// Returns the words of a text: letters, digits, and hyphens between them.
fn words_of(text: &str) -> impl Iterator<Item = Range<usize>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '-' || is_invisible(c);
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(is_word)?;
        let length = text[start..].find(|c: char| !is_word(c));
        at = length.map_or(text.len(), |length| start + length);
        let word = text[start..at].trim_matches('-');
        let before = text[start..at].len() - text[start..at].trim_start_matches('-').len();
        Some(start + before..start + before + word.len())
    })
    .filter(|range| !range.is_empty())
}

/// Returns the number of digits if the word consists only of digits, of any script.
fn digits(word: &str) -> Option<usize> {
    let mut count = 0;
    for character in word.chars() {
        match character {
            c if c.is_numeric() => count += 1,
            c if is_invisible(c) => {}
            _ => return None,
        }
    }
    Some(count)
}

/// Returns `true` if the word has the form of a code: digits, groups of digits with hyphens, or
/// capital letters with digits.
fn is_code(word: &str) -> bool {
    let plain: String = word
        .chars()
        .filter(|c| !is_invisible(*c) && *c != '-')
        .collect();
    let length = plain.chars().count();
    if !CODE_LENGTH.contains(&length) || !plain.chars().any(char::is_numeric) {
        return false;
    }
    let groups: Vec<usize> = word.split('-').filter_map(digits).collect();
    let is_numeric = plain.chars().all(char::is_numeric);
    let is_date = matches!(groups[..], [4, 2, 2] | [2, 2, 4]);
    if is_numeric && (is_date || (groups.len() == 2 && word.split('-').all(is_year))) {
        return false;
    }
    is_numeric || plain.chars().all(|c| c.is_numeric() || c.is_uppercase())
}

/// Returns `true` if the word is only a code where the message says so: capital letters without a
/// digit, or small letters with digits.
fn is_unusual_code(word: &str) -> bool {
    let letters = || word.chars().filter(|c| !is_invisible(*c) && *c != '-');
    let is_upper = letters().all(char::is_uppercase);
    let is_mixed = letters().any(char::is_lowercase) && letters().any(char::is_numeric);
    CODE_LENGTH.contains(&letters().count()) && (is_upper || is_mixed)
}

fn is_year(word: &str) -> bool {
    word.parse::<u32>()
        .is_ok_and(|year| (1900..2100).contains(&year))
        && word.len() == 4
}

/// Returns `true` if a word for codes is near the candidate, in the same sentence.
fn is_near_code_word(text: &str, candidate: &Range<usize>) -> bool {
    let floor = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let before = folded(&text[floor(candidate.start.saturating_sub(NEAR * 2))..candidate.start]);
    let after_end = floor((candidate.end + NEAR).min(text.len()));
    let after = folded(&text[candidate.end..after_end]);
    let has_long = text[candidate.clone()].chars().count() > 4;
    let before = CODE_WORDS.iter().any(|word| {
        let Some(at) = last_word(&before, word) else {
            return false;
        };
        let between = &before[at + word.len()..];
        let is_direct = between.split(|c: char| !c.is_alphanumeric()).all(|one| {
            let links = [
                "", "is", "ist", "lautet", "est", "es", "e", "\u{e8}", "now", "below",
            ];
            links.contains(&one)
        });
        let in_sentence = between.len() <= NEAR && !between.contains(". ");
        !is_other_code(&before[..at]) && (is_direct || (has_long && in_sentence))
    });
    let after = CODE_WORDS.iter().any(|word| {
        let found = after.find(word).filter(|_| contains_word(&after, word));
        found.is_some_and(|at| {
            let between = &after[..at];
            let is_statement = [" is ", " ist ", " est ", " es ", " \u{e8} ", "\u{662f}"];
            let is_statement = is_statement.iter().any(|verb| between.starts_with(verb));
            is_statement && !between.contains('.') && !is_other_code(between)
        })
    });
    before || after
}

/// Returns the position of the last occurrence of a word.
fn last_word(text: &str, word: &str) -> Option<usize> {
    let is_whole = |at: &usize| {
        let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let after = text[at + word.len()..].chars().next();
        !word.is_ascii() || !(is_letter(text[..*at].chars().next_back()) || is_letter(after))
    };
    let mut all = text.rmatch_indices(word).map(|(at, _)| at);
    all.find(is_whole)
}

/// Returns `true` if the text before the word "code" says that the code is not for signing in, for
/// example "zip" or "discount".
fn is_other_code(before: &str) -> bool {
    let before = before.trim_end();
    let last = before.rsplit(|c: char| !c.is_alphanumeric()).next();
    last.is_some_and(|last| OTHER_CODES.contains(&last))
}

#[cfg(test)]
mod tests;
