//! Character sets of mail: finds the character set for a label, and decodes text.
//!
//! Labels of mail have many spellings, and some contradict the text. A text without a known label
//! is UTF-8 if the text is valid UTF-8, otherwise windows-1252. The decoder `replacement` of the
//! WHATWG Encoding Standard is never used, because this decoder drops the complete text.

use encoding_rs::{
    BIG5, EUC_JP, EUC_KR, Encoding, GB18030, GBK, IBM866, ISO_2022_JP, ISO_8859_2, ISO_8859_3,
    ISO_8859_4, ISO_8859_5, ISO_8859_6, ISO_8859_7, ISO_8859_8, ISO_8859_10, ISO_8859_13,
    ISO_8859_14, ISO_8859_15, ISO_8859_16, KOI8_R, KOI8_U, MACINTOSH, REPLACEMENT, SHIFT_JIS,
    UTF_8, UTF_16BE, UTF_16LE, WINDOWS_874, WINDOWS_1250, WINDOWS_1251, WINDOWS_1252, WINDOWS_1253,
    WINDOWS_1254, WINDOWS_1255, WINDOWS_1256, WINDOWS_1257, WINDOWS_1258, X_MAC_CYRILLIC,
    X_USER_DEFINED,
};
use memchr::memmem;
use oem_cp::code_table::DECODING_TABLE_CP_MAP;

use super::transfer::{self, Encoding as Transfer};

/// Maximum number of characters of a label. The longest registered label has 45 characters.
const MAX_LABEL: usize = 64;

/// The byte order mark of UTF-8.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// The escape sequences that begin Japanese text in ISO-2022-JP (RFC 1468).
const JAPANESE: [&[u8]; 2] = [b"\x1b$B", b"\x1b$@"];

/// The escape sequence at the beginning of a text in ISO-2022-KR (RFC 1557).
const KOREAN: &[u8] = b"\x1b$)C";

/// A character set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Charset {
    /// UTF-8 if the text is valid UTF-8, otherwise windows-1252. For ASCII, for unknown labels and
    /// for text without a label.
    #[default]
    Unlabelled,
    /// A character set of the WHATWG Encoding Standard.
    Web(&'static Encoding),
    /// A code page of DOS, which is a key of [`DECODING_TABLE_CP_MAP`].
    Dos(u16),
    /// UTF-7 (RFC 2152).
    Utf7,
    /// ISO-2022-KR (RFC 1557).
    Iso2022Kr,
    /// HZ (RFC 1843).
    Hz,
    /// A character set without a decoder, such as ISO-2022-CN. Decoding keeps ASCII and valid
    /// UTF-8.
    Undecodable,
}

impl Charset {
    /// Returns the character set for a label.
    pub(super) fn named(label: Option<&str>) -> Self {
        let label = label.unwrap_or_default();
        if label.eq_ignore_ascii_case("utf-8") {
            return Self::Web(UTF_8);
        }
        // A language, a year, another parameter or a comment can follow the label.
        let label = label.split(['*', ':', ';', ',', '(']).next();
        let label = label.unwrap_or_default();
        let folded: String = label
            .bytes()
            .filter(u8::is_ascii_alphanumeric)
            .take(MAX_LABEL)
            .map(|byte| char::from(byte.to_ascii_lowercase()))
            .collect();
        let mut name = folded.as_str();
        loop {
            if let Some(charset) = Self::folded(name) {
                return charset;
            }
            match name.strip_prefix('x').or_else(|| name.strip_prefix("cs")) {
                Some(rest) => name = rest,
                None => break,
            }
        }
        match Encoding::for_label(label.as_bytes()) {
            Some(encoding) if encoding != REPLACEMENT && encoding != X_USER_DEFINED => {
                Self::Web(encoding)
            }
            _ => Self::Unlabelled,
        }
    }

    /// Returns the character set for a label in lower case that has only letters and digits.
    fn folded(name: &str) -> Option<Self> {
        let encoding = match name {
            "ascii" | "usascii" | "ansix341968" | "ansix341986" | "iso646us" | "isoir6" | "us" => {
                return Some(Self::Unlabelled);
            }
            "utf7" | "unicode11utf7" | "unicode20utf7" => return Some(Self::Utf7),
            "iso2022kr" => return Some(Self::Iso2022Kr),
            "hz" | "hzgb2312" => return Some(Self::Hz),
            "replacement" => return Some(Self::Undecodable),
            "pc8codepage437" => return Some(Self::Dos(437)),
            "pc850multilingual" => return Some(Self::Dos(850)),
            "pcmultilingual850euro" => return Some(Self::Dos(858)),
            "utf8" | "utf8mb4" | "unicode11utf8" | "unicode20utf8" => UTF_8,
            "utf16" | "utf16le" | "ucs2" | "unicode" | "iso10646ucs2" => UTF_16LE,
            "utf16be" => UTF_16BE,
            "gb2312" | "gb231280" | "iso58gb231280" | "gbk" | "gb" | "euccn" | "chinese" => GBK,
            "cnbig5" => BIG5,
            "eucjp" | "ujis" => EUC_JP,
            "uhc" | "korean" | "ksx1001" => EUC_KR,
            "sjis" | "mskanji" => SHIFT_JIS,
            "koi8" | "koi8r" | "koi" => KOI8_R,
            "koi8u" | "koi8ru" => KOI8_U,
            "mac" | "macroman" | "macintosh" => MACINTOSH,
            "maccyrillic" | "macukrainian" => X_MAC_CYRILLIC,
            "tis620" => WINDOWS_874,
            _ if name.starts_with("iso2022cn") => return Some(Self::Undecodable),
            _ if name.starts_with("iso2022jp") => ISO_2022_JP,
            _ if name.starts_with("gb18030") => GB18030,
            _ if name.starts_with("big5") => BIG5,
            _ if name.starts_with("euckr") || name.starts_with("ksc5") => EUC_KR,
            _ if name.starts_with("shiftjis") || name == "windows31j" => SHIFT_JIS,
            _ => return Self::numbered(name),
        };
        Some(Self::Web(encoding))
    }

    /// Returns the character set for a label that ends with a number.
    fn numbered(name: &str) -> Option<Self> {
        for prefix in ["iso8859", "8859"] {
            if let Some(number) = name.strip_prefix(prefix) {
                // A letter `e` or `i` at the end means the direction of the text (RFC 1556) and is
                // ignored.
                return iso_8859(number.trim_end_matches(['e', 'i']).parse().ok()?);
            }
        }
        let family = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name[family.len()..].parse().ok()?;
        match family {
            "" | "cp" | "pcp" | "ibm" | "windows" | "win" | "windowscp" | "ansi" | "dos"
            | "oem" | "ms" | "mscp" | "codepage" | "ccsid" => code_page(number),
            "l" | "latin" | "isolatin" => {
                let numbers = [1, 2, 3, 4, 9, 10, 13, 14, 15, 16];
                iso_8859(*numbers.get(usize::from(number).checked_sub(1)?)?)
            }
            _ => None,
        }
    }

    /// Returns `true` if a text that begins with ASCII letters begins with the same letters after
    /// decoding.
    fn extends_ascii(self) -> bool {
        match self {
            Self::Unlabelled | Self::Dos(_) | Self::Undecodable => true,
            Self::Web(encoding) => encoding.is_ascii_compatible(),
            Self::Utf7 | Self::Iso2022Kr | Self::Hz => false,
        }
    }

    /// Decodes a text and removes a byte order mark. `cut` is `true` if the last character can be
    /// incomplete.
    pub(super) fn decode(self, bytes: Vec<u8>, cut: bool) -> String {
        if bytes.starts_with(MARK) {
            return lossy_utf8(bytes[MARK.len()..].to_vec());
        }
        match self {
            Self::Unlabelled => decode_unlabelled(bytes, cut),
            Self::Undecodable => lossy_utf8(bytes),
            Self::Web(encoding) if encoding == UTF_8 => lossy_utf8(bytes),
            Self::Web(encoding) if encoding == UTF_16LE || encoding == UTF_16BE => {
                decode_utf16(encoding, bytes)
            }
            Self::Web(encoding) if encoding == ISO_2022_JP => {
                decode_seven_bit(&bytes, cut, |run| {
                    let run = remove_redundant_escapes(run);
                    encoding.decode_without_bom_handling(&run).0.into_owned()
                })
            }
            Self::Web(encoding) => encoding.decode_without_bom_handling(&bytes).0.into_owned(),
            Self::Dos(number) => match DECODING_TABLE_CP_MAP.get(&number) {
                Some(table) => table.decode_string_lossy(&bytes),
                None => decode_unlabelled(bytes, cut),
            },
            Self::Utf7 => decode_seven_bit(&bytes, cut, decode_utf7),
            Self::Iso2022Kr => decode_seven_bit(&bytes, cut, decode_iso_2022_kr),
            Self::Hz => decode_seven_bit(&bytes, cut, decode_hz),
        }
    }

    /// Decodes bytes above 127 in a header field. Returns `None` if the bytes are invalid in this
    /// character set, or if the character set is not an extension of ASCII.
    pub(super) fn decode_strictly(self, bytes: &[u8]) -> Option<String> {
        match self {
            Self::Web(encoding) if encoding.is_ascii_compatible() => encoding
                .decode_without_bom_handling_and_without_replacement(bytes)
                .map(Into::into),
            Self::Dos(_) => Some(self.decode(bytes.to_vec(), false)),
            _ => None,
        }
    }

    /// Decodes the beginning of a text. Returns `None` if the rest of the text could change the
    /// result.
    pub(super) fn decode_beginning(self, bytes: &[u8]) -> Option<&str> {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?,
        };
        if self == Self::Web(UTF_8) {
            return Some(text.strip_prefix('\u{feff}').unwrap_or(text));
        }
        (self.extends_ascii() && bytes.is_ascii() && !bytes.contains(&0x1b)).then_some(text)
    }
}

/// Returns the character set for a part number of ISO 8859. The WHATWG Encoding Standard uses
/// Windows code pages instead of parts 1, 9 and 11.
fn iso_8859(part: u16) -> Option<Charset> {
    let encoding = match part {
        1 => WINDOWS_1252,
        2 => ISO_8859_2,
        3 => ISO_8859_3,
        4 => ISO_8859_4,
        5 => ISO_8859_5,
        6 => ISO_8859_6,
        7 => ISO_8859_7,
        8 => ISO_8859_8,
        9 => WINDOWS_1254,
        10 => ISO_8859_10,
        11 => WINDOWS_874,
        13 => ISO_8859_13,
        14 => ISO_8859_14,
        15 => ISO_8859_15,
        16 => ISO_8859_16,
        _ => return None,
    };
    Some(Charset::Web(encoding))
}

/// Returns the character set for a number of a code page of DOS, Windows or IBM.
fn code_page(number: u16) -> Option<Charset> {
    let encoding = match number {
        367 | 20127 => return Some(Charset::Unlabelled),
        866 => IBM866,
        874 => WINDOWS_874,
        932 | 943 => SHIFT_JIS,
        936 | 20936 | 51936 => GBK,
        949 | 51949 => EUC_KR,
        950 | 951 => BIG5,
        1200 => UTF_16LE,
        1201 => UTF_16BE,
        1250 => WINDOWS_1250,
        1251 => WINDOWS_1251,
        819 | 1252 => WINDOWS_1252,
        1253 => WINDOWS_1253,
        1254 => WINDOWS_1254,
        1255 => WINDOWS_1255,
        1256 => WINDOWS_1256,
        1257 => WINDOWS_1257,
        1258 => WINDOWS_1258,
        10000 => MACINTOSH,
        10007 | 10017 => X_MAC_CYRILLIC,
        20866 => KOI8_R,
        20932 | 51932 => EUC_JP,
        21866 => KOI8_U,
        28591..=28606 => return iso_8859(number - 28590),
        38598 => ISO_8859_8,
        50220..=50222 => ISO_2022_JP,
        50225 => return Some(Charset::Iso2022Kr),
        52936 => return Some(Charset::Hz),
        54936 => GB18030,
        65000 => return Some(Charset::Utf7),
        65001 => UTF_8,
        _ => {
            let is_known = DECODING_TABLE_CP_MAP.contains_key(&number);
            return is_known.then_some(Charset::Dos(number));
        }
    };
    Some(Charset::Web(encoding))
}

fn lossy_utf8(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn decode_unlabelled(bytes: Vec<u8>, cut: bool) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => decode_escapes(&text, cut).unwrap_or(text),
        Err(error) if cut && error.utf8_error().error_len().is_none() => {
            lossy_utf8(error.into_bytes())
        }
        Err(error) => {
            let bytes = error.as_bytes();
            WINDOWS_1252.decode_without_bom_handling(bytes).0.into()
        }
    }
}

/// Decodes a text without a label that has the escape sequences of ISO-2022-JP or ISO-2022-KR.
/// Returns `None` for other text.
fn decode_escapes(text: &str, cut: bool) -> Option<String> {
    let bytes = text.as_bytes();
    memchr::memchr(0x1b, bytes)?;
    let contains = |sequence| memmem::find(bytes, sequence).is_some();
    let charset = if JAPANESE.into_iter().any(contains) {
        Charset::Web(ISO_2022_JP)
    } else if contains(KOREAN) {
        Charset::Iso2022Kr
    } else {
        return None;
    };
    let decoded = charset.decode(bytes.to_vec(), cut);
    let whole = decoded.trim_end_matches(|c| cut && c == char::REPLACEMENT_CHARACTER);
    (!whole.contains(char::REPLACEMENT_CHARACTER)).then_some(decoded)
}

/// Decodes a text whose character set has only seven bits. Keeps bytes above 127 if the text is
/// valid UTF-8. For example, a mailing list adds a footer in UTF-8.
fn decode_seven_bit(bytes: &[u8], cut: bool, decode: impl Fn(&[u8]) -> String) -> String {
    let is_utf8 = match std::str::from_utf8(bytes) {
        Ok(_) => !bytes.is_ascii(),
        Err(error) => cut && error.error_len().is_none(),
    };
    if !is_utf8 {
        return decode(bytes);
    }
    let mut text = String::with_capacity(bytes.len());
    for run in bytes.chunk_by(|a, b| a.is_ascii() == b.is_ascii()) {
        if run.is_ascii() {
            text.push_str(&decode(run));
        } else {
            text.push_str(&String::from_utf8_lossy(run));
        }
    }
    text
}

/// Removes each escape sequence that directly precedes another escape sequence. Senders create such
/// pairs when they join lines or encoded words, because each line begins with a switch to Japanese
/// and ends with a switch to ASCII. The decoders of the WHATWG Encoding Standard treat such a pair
/// as an attack and return a replacement character.
fn remove_redundant_escapes(bytes: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if *byte == 0x1b && bytes.get(at + 3) == Some(&0x1b) {
            at += 3;
        } else {
            result.push(*byte);
            at += 1;
        }
    }
    result
}

/// Decodes ISO-2022-KR: sets the high bit of the bytes between SO and SI, which then are EUC-KR. At
/// the beginning of each line, the text is ASCII until the next SO.
fn decode_iso_2022_kr(bytes: &[u8]) -> String {
    let mut eight_bit = Vec::with_capacity(bytes.len());
    let (mut rest, mut is_korean) = (bytes, false);
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            0x0e => is_korean = true,
            0x0f => is_korean = false,
            0x1b if after.starts_with(&KOREAN[1..]) => rest = &after[KOREAN.len() - 1..],
            0x21..=0x7e if is_korean => eight_bit.push(byte | 0x80),
            _ => {
                is_korean &= *byte != b'\n';
                eight_bit.push(*byte);
            }
        }
    }
    let (text, _) = EUC_KR.decode_without_bom_handling(&eight_bit);
    text.into_owned()
}

/// Decodes HZ: sets the high bit of the pairs of bytes between `~{` and `~}`, which then are GBK.
/// At the beginning of each line, the text is ASCII until the next `~{`.
fn decode_hz(bytes: &[u8]) -> String {
    let mut eight_bit = Vec::with_capacity(bytes.len());
    let (mut rest, mut is_chinese) = (bytes, false);
    loop {
        rest = match rest {
            [b'~', b'{', after @ ..] if !is_chinese => {
                is_chinese = true;
                after
            }
            [b'~', b'}', after @ ..] if is_chinese => {
                is_chinese = false;
                after
            }
            [b'~', b'~', after @ ..] if !is_chinese => {
                eight_bit.push(b'~');
                after
            }
            [b'~', b'\n', after @ ..] if !is_chinese => after,
            [b'~', b'\r', b'\n', after @ ..] if !is_chinese => after,
            [first @ 0x21..=0x7e, second @ 0x21..=0x7e, after @ ..] if is_chinese => {
                eight_bit.extend([first | 0x80, second | 0x80]);
                after
            }
            [byte, after @ ..] => {
                is_chinese &= *byte != b'\n';
                eight_bit.push(*byte);
                after
            }
            [] => break,
        };
    }
    match GBK.decode_without_bom_handling_and_without_replacement(&eight_bit) {
        Some(text) => text.into_owned(),
        // Either the text is ASCII that contains `~{`, or the text is damaged.
        None => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Decodes UTF-7. Keeps an invalid sequence as text.
fn decode_utf7(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut decoded = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some((before, after)) = rest.split_once('+') {
        decoded.push_str(before);
        let is_letter = |byte: u8| transfer::base64_value(byte).is_some();
        let length = after.bytes().take_while(|byte| is_letter(*byte)).count();
        let (letters, end) = after.split_at(length);
        rest = end.strip_prefix('-').unwrap_or(end);
        let shift = &after[..after.len() - rest.len()];
        if shift == "-" {
            decoded.push('+');
            continue;
        }
        let utf16 = transfer::decoded(letters.as_bytes(), Transfer::Base64);
        match UTF_16BE.decode_without_bom_handling_and_without_replacement(&utf16) {
            Some(characters) if !characters.is_empty() => decoded.push_str(&characters),
            _ => {
                decoded.push('+');
                decoded.push_str(shift);
            }
        }
    }
    decoded.push_str(rest);
    decoded
}

/// Decodes UTF-16. A byte order mark takes precedence over the label, and the positions of zero
/// bytes over a label without a mark.
fn decode_utf16(encoding: &'static Encoding, mut bytes: Vec<u8>) -> String {
    // Valid UTF-8 without a zero byte is not UTF-16, because each line break in UTF-16 has a zero
    // byte. So the label is wrong.
    if !bytes.contains(&0) && std::str::from_utf8(&bytes).is_ok() {
        return lossy_utf8(bytes);
    }
    bytes.truncate(bytes.len() / 2 * 2);
    let zeros = |first: usize| {
        let bytes = bytes.iter().skip(first).step_by(2);
        bytes.filter(|byte| **byte == 0).count()
    };
    let encoding = match zeros(0).cmp(&zeros(1)) {
        std::cmp::Ordering::Greater => UTF_16BE,
        std::cmp::Ordering::Less => UTF_16LE,
        std::cmp::Ordering::Equal => encoding,
    };
    encoding.decode(&bytes).0.into_owned()
}

#[cfg(test)]
mod tests;
