//! Removes reply prefixes from subjects.
//!
//! The rules are those of RFC 5256, section 2.1, with prefixes of more languages. Unlike in the
//! RFC, a tag in square brackets stays part of the subject. Therefore replies to
//! `[Ticket 1] Printer` and `[Ticket 2] Printer` are not in the same thread. A reply has a second
//! subject without tags, because a mailing list or a mail server can have added the tags to the
//! reply only.

use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::CodePointSetData;
use icu_properties::props::DefaultIgnorableCodePoint;

/// Reply prefixes and forward prefixes in lower case, without the colon.
const PREFIXES: &[&str] = &[
    // English, and used by most clients.
    "re",
    "fwd",
    "fw",
    "reply",
    "forward",
    // German.
    "aw",
    "antwort",
    "wg",
    "weitergeleitet",
    // Danish, Norwegian, Swedish.
    "sv",
    "vs",
    "vb",
    "svar",
    "vedr",
    "videresendt",
    // Finnish.
    "vl",
    "vast",
    // French.
    "tr",
    "rép",
    "réf",
    "rép. à",
    // Spanish.
    "rv",
    "reenv",
    "resp",
    "respuesta",
    // Portuguese.
    "res",
    "enc",
    // Italian.
    "r",
    "rif",
    "i",
    // Dutch.
    "antw",
    "betr",
    "doorst",
    "doorgest",
    // Polish.
    "odp",
    "pd",
    // Hungarian.
    "vá",
    "válasz",
    "továbbítás",
    "tov",
    // Turkish, with the different letters for I.
    "ynt",
    "i\u{307}lt",
    "ilt",
    "ılt",
    // Latvian, Lithuanian, Estonian.
    "atb",
    "pārs",
    "ats",
    "edasi",
    // Romanian.
    "răsp",
    "redir",
    // Indonesian, Welsh, Vietnamese.
    "bls",
    "trs",
    "tl",
    "yml",
    "trả lời",
    "chuyển tiếp",
    // Croatian, Slovenian, Czech, Slovak.
    "odg",
    "odgovor",
    "proslj",
    "posr",
    "odpověď",
    "odpoveď",
    "přep",
    "přepo",
    // Greek.
    "απ",
    "σχετ",
    "πρθ",
    // Russian, Ukrainian, Bulgarian, Serbian.
    "ответ",
    "отв",
    "на",
    "пересл",
    "перенапр",
    "пер",
    "відп",
    "відповідь",
    "перес",
    "переслано",
    "отг",
    "отговор",
    "пр",
    "препр",
    "одг",
    "одговор",
    // Hebrew, Arabic, Persian.
    "השב",
    "תשובה",
    "תגובה",
    "הועבר",
    "העברה",
    "رد",
    "الرد",
    "إعادة توجيه",
    "اعادة توجيه",
    "تحويل",
    "پاسخ",
    "ارجاع",
    // Chinese.
    "回复",
    "回覆",
    "回復",
    "答复",
    "答覆",
    "转发",
    "轉寄",
    "轉發",
    // Japanese.
    "返信",
    "転送",
    // Korean.
    "답장",
    "회신",
    "답변",
    "전달",
    // Thai.
    "ตอบ",
    "ตอบกลับ",
    "ส่งต่อ",
];

/// Maximum length of a prefix with its number of replies, in bytes.
const MAX_PREFIX: usize = 40;

/// Maximum number of tags in a subject. Further tags are text.
const MAX_TAGS: usize = 8;

/// A subject without reply prefixes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BaseSubject {
    /// The subject in lower case, without reply prefixes. Each sequence of white space is a single
    /// space.
    pub(super) text: String,
    /// The length in bytes of the tags (`[list]`) at the beginning of `text`, with the space that
    /// follows.
    tags: usize,
    /// `true` if the subject had a reply prefix.
    pub(super) is_reply: bool,
}

impl BaseSubject {
    pub(super) fn of(subject: &str) -> Self {
        let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
        // Mail clients in Hebrew and Arabic add invisible direction marks to prefixes. The marks
        // are removed, because a prefix would not be recognized otherwise.
        let is_visible = |c: &char| c.is_ascii() || !ignorable.contains(*c);
        let visible: String = subject.chars().filter(is_visible).collect();
        let words: Vec<_> = visible.split_whitespace().collect();
        let folded = words.join(" ").to_lowercase();
        let folded = ComposingNormalizerBorrowed::new_nfc().normalize(&folded);
        let folded = folded.as_ref();
        let (mut rest, mut is_reply) = (folded, false);
        let mut tags: Vec<&str> = Vec::new();
        loop {
            if let Some(shorter) = rest.strip_suffix("(fwd)") {
                (rest, is_reply) = (shorter.trim_end(), true);
            } else if let Some(shorter) = without_prefix(rest) {
                (rest, is_reply) = (shorter, true);
            } else if let Some(inner) = wrapped(rest) {
                (rest, is_reply) = (inner, true);
            } else if tags.len() < MAX_TAGS
                && let Some((tag, after)) = split_tag(rest)
            {
                // Some mailing lists add their tag again to each reply, so a repeated tag is
                // dropped.
                if !tags.contains(&tag) {
                    tags.push(tag);
                }
                rest = after;
            } else {
                break;
            }
        }
        let mut text = tags.join(" ");
        if !text.is_empty() && !rest.is_empty() {
            text.push(' ');
        }
        let tags = text.len();
        text.push_str(rest);
        Self {
            text,
            tags,
            is_reply,
        }
    }

    /// Returns the subject without tags. Returns `None` if the subject had no reply prefix, has no
    /// tag, or has only tags.
    pub(super) fn untagged(&self) -> Option<&str> {
        let untagged = self.text.get(self.tags..)?;
        (self.is_reply && self.tags > 0 && !untagged.is_empty()).then_some(untagged)
    }
}

/// Removes one reply prefix, for example `re:`, `re[2]:` or `re :`. Returns `None` if the text has
/// no reply prefix.
fn without_prefix(text: &str) -> Option<&str> {
    let start = &text[..text.floor_char_boundary(MAX_PREFIX)];
    let colon = start.find([':', '：'])?;
    let (before, after) = text.split_at(colon);
    is_prefix(before).then(|| after.trim_start_matches([':', '：']).trim_start())
}

/// Returns `true` if the folded text before a colon is a prefix.
fn is_prefix(before: &str) -> bool {
    let name = without_count(before.trim_end()).trim_end_matches('.');
    PREFIXES.contains(&name)
}

/// Returns a subject without reply prefixes and forward prefixes, with the same letters otherwise.
/// Tags (`[list]`) are kept at the beginning, and a repeated tag is dropped. Each sequence of white
/// space is a single space.
#[must_use]
pub fn without_reply_prefixes(subject: &str) -> String {
    let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    let is_invisible = |c: char| c.is_whitespace() || (!c.is_ascii() && ignorable.contains(c));
    let words: Vec<_> = subject.split_whitespace().collect();
    let spaced = words.join(" ");
    let mut rest = spaced.as_str();
    let mut tags: Vec<&str> = Vec::new();
    loop {
        if let Some(shorter) = without_forward_suffix(rest) {
            rest = shorter;
        } else if let Some(shorter) = without_written_prefix(rest) {
            rest = shorter.trim_start_matches(is_invisible);
        } else if let Some(inner) = wrapped_in_any_case(rest) {
            rest = inner;
        } else if tags.len() < MAX_TAGS
            && let Some((tag, after)) = split_tag(rest)
        {
            let is_same = |one: &&str| one.to_lowercase() == tag.to_lowercase();
            if !tags.iter().any(is_same) {
                tags.push(tag);
            }
            rest = after;
        } else {
            break;
        }
    }
    tags.push(rest);
    tags.join(" ").trim_end().to_owned()
}

/// Removes one prefix from a subject that is not folded.
fn without_written_prefix(text: &str) -> Option<&str> {
    // Marks and decomposed letters use additional bytes.
    let start = &text[..text.floor_char_boundary(MAX_PREFIX * 2)];
    let colon = start.find([':', '：'])?;
    let (before, after) = text.split_at(colon);
    let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    let visible = before
        .chars()
        .filter(|c| c.is_ascii() || !ignorable.contains(*c));
    let folded = visible.collect::<String>().to_lowercase();
    let folded = ComposingNormalizerBorrowed::new_nfc().normalize(folded.trim_start());
    is_prefix(&folded).then(|| after.trim_start_matches([':', '：']).trim_start())
}

fn without_forward_suffix(text: &str) -> Option<&str> {
    let at = text.len().checked_sub("(fwd)".len())?;
    let end = text.get(at..)?;
    end.eq_ignore_ascii_case("(fwd)")
        .then(|| text[..at].trim_end())
}

fn wrapped_in_any_case(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    let colon = inner.find(':').filter(|colon| *colon <= 3)?;
    let name = &inner[..colon];
    let is_forward = ["fwd", "fw"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known));
    is_forward.then(|| inner[colon + 1..].trim())
}

/// Removes the number of replies, for example in `re[2]`, `re(2)` or `re^2`.
fn without_count(prefix: &str) -> &str {
    let open = prefix.trim_end_matches([']', ')']);
    let name = open.trim_end_matches(|c: char| c.is_ascii_digit());
    match name.strip_suffix(['[', '(', '^', '*']) {
        Some(name) if name.len() + 1 < open.len() => name.trim_end(),
        _ => prefix,
    }
}

/// Returns the subject in `[fwd: subject]`.
fn wrapped(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    let inner = inner
        .strip_prefix("fwd:")
        .or_else(|| inner.strip_prefix("fw:"))?;
    Some(inner.trim())
}

/// Splits a tag like `[list]` from the beginning. Returns `None` if no text follows the tag.
fn split_tag(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('[')?;
    let end = inner
        .find(['[', ']'])
        .filter(|end| inner[*end..].starts_with(']'))?;
    let (tag, after) = text.split_at(end + 2);
    let after = after.trim_start();
    (!after.is_empty()).then_some((tag, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(subject: &str) -> (String, bool) {
        let BaseSubject { text, is_reply, .. } = BaseSubject::of(subject);
        (text, is_reply)
    }

    #[test]
    fn prefixes_of_many_languages_are_removed() {
        for subject in [
            "Re: Plan",
            "RE: plan",
            "re:Plan",
            "Re : Plan",
            "Fwd: Plan",
            "FW: Plan",
            "AW: Plan",
            "WG: Plan",
            "SV: Plan",
            "VS: Plan",
            "VB: Plan",
            "TR: Plan",
            "Rif: Plan",
            "R: Plan",
            "RES: Plan",
            "ENC: Plan",
            "Odp: Plan",
            "PD: Plan",
            "Antw: Plan",
            "Vá: Plan",
            "Va\u{301}: Plan",
            "Ynt: Plan",
            "İlt: Plan",
            "ILT: Plan",
            "回复: Plan",
            "回复：Plan",
            "答复：Plan",
            "转发: Plan",
            "返信: Plan",
            "Re[2]: Plan",
            "RE^2: Plan",
            "Re(3): Plan",
            "Re: Re: AW: Plan",
            "Re: Fwd:  Plan ",
            "Plan (fwd)",
            "[Fwd: Plan]",
            "Re: [Fwd: Re: Plan]",
            "רד: re: Plan".trim_start_matches("רד: "),
            "Ответ: PLAN",
            "RV: Plan",
            "답장: Plan",
            "전달: Plan",
            "회신: Re: Plan",
            "תשובה: Plan",
            "\u{200f}תגובה:\u{200e} Plan",
            "הועבר: Plan",
            "Trả lời: Plan",
            "Tra\u{309} lo\u{31b}\u{300}i: Plan",
            "Chuyển tiếp: Plan",
            "Réf. : Plan",
            "ODP.: Plan",
            "I: Plan",
            "VL: Plan",
            "Відп: Plan",
            "НА: Plan",
            "إعادة توجيه: Plan",
            "回復：Plan",
            "ตอบกลับ: Plan",
        ] {
            assert_eq!(base(subject), ("plan".into(), true), "{subject}");
        }
    }

    #[test]
    fn other_words_before_a_colon_are_text() {
        for subject in [
            "Plan",
            "Reminder: Plan",
            "Re Plan",
            "Answer: 42",
            "Area: 51",
            "10:30 Plan",
            "R2: Plan",
            "re",
            "Größe: 3",
        ] {
            let folded = subject.to_lowercase();
            assert_eq!(base(subject), (folded, false), "{subject}");
        }
    }

    #[test]
    fn tags_stay_in_one_order_with_and_without_prefixes() {
        let expected = "[list] plan";
        assert_eq!(base("[list] Plan"), (expected.into(), false));
        for subject in [
            "Re: [list] Plan",
            "[list] Re: Plan",
            "[LIST] AW: [list] Plan",
            "Re:[list]Re: Plan",
        ] {
            assert_eq!(base(subject), (expected.into(), true), "{subject}");
        }
        assert_ne!(base("Re: [Ticket 1] Plan").0, base("[Ticket 2] Plan").0);
        let untagged = |subject: &str| BaseSubject::of(subject).untagged().map(str::to_owned);
        for subject in [
            "[list] Re: Plan",
            "Re: [list] Plan",
            "[list] AW: [list] Plan",
        ] {
            assert_eq!(untagged(subject).as_deref(), Some("plan"), "{subject}");
        }
        for subject in ["[list] Plan", "Re: Plan", "Re: [list]", "Plan", ""] {
            assert_eq!(untagged(subject), None, "{subject}");
        }
        assert_eq!(base("[only a tag]"), ("[only a tag]".into(), false));
        assert_eq!(base("Re: [a[b] c"), ("[a[b] c".into(), true));
    }

    #[test]
    fn a_subject_without_prefixes_keeps_its_letters() {
        for (subject, expected) in [
            ("Plan B", "Plan B"),
            ("Re: AW: Fwd:  Plan  B", "Plan B"),
            ("RE[2]: Ünïcode", "Ünïcode"),
            ("Va\u{301}: Plan", "Plan"),
            ("\u{200f}תגובה:\u{200e} Plan", "Plan"),
            ("回复：Plan", "Plan"),
            ("Réf. : Plan", "Plan"),
            ("[List] Re: [list] Plan", "[List] Plan"),
            ("Re: [Ticket 1] AW: Plan", "[Ticket 1] Plan"),
            ("[Fwd: Plan]", "Plan"),
            ("Plan (FWD)", "Plan"),
            ("Reminder: Plan", "Reminder: Plan"),
            ("Re:", ""),
            ("[a]", "[a]"),
            ("", ""),
        ] {
            assert_eq!(without_reply_prefixes(subject), expected, "{subject}");
        }
    }

    #[test]
    fn both_functions_recognize_the_same_prefixes() {
        for prefix in PREFIXES {
            for subject in [
                format!("{prefix}: Plan"),
                format!("{} : Plan", prefix.to_uppercase()),
            ] {
                assert_eq!(base(&without_reply_prefixes(&subject)).0, base(&subject).0);
            }
        }
    }

    #[test]
    fn an_empty_subject_has_an_empty_base() {
        for subject in ["", "  ", "\t"] {
            assert_eq!(base(subject), (String::new(), false));
        }
        for subject in ["Re:", "Re: ", "AW: Re:", "[fwd: ]", "(fwd)"] {
            assert_eq!(base(subject), (String::new(), true), "{subject}");
        }
    }

    #[test]
    fn a_long_subject_takes_linear_time() {
        let mut subject = "Re: [a] ".repeat(200_000);
        subject.push('x');
        assert!(base(&subject).1);
        assert!(base(&"[".repeat(1_000_000)).0.len() == 1_000_000);
        assert!(base(&"[fwd:".repeat(100_000)).0.len() > 1000);
    }
}
