//! Makes the file names of attachments safe, because file dialogs display these names and clients
//! create files with them.

use crate::bounds;

/// Returns the sender's file name without misleading characters. If no character remains, returns a
/// name for the media type.
pub(super) fn sanitize(sent: Option<&str>, media: &str, index: u32) -> String {
    let name: String = sent
        .unwrap_or_default()
        .chars()
        .filter(|c| !is_misleading(*c))
        .map(|c| if matches!(c, '/' | '\\') { '_' } else { c })
        .collect();
    let name = name.trim_matches(|c: char| c.is_whitespace() || c == '.');
    if name.is_empty() {
        return format!(
            "attachment-{}.{}",
            index.saturating_add(1),
            extension(media)
        );
    }
    truncate(name)
}

/// Returns `true` for control characters, invisible characters, and characters that change the
/// direction of text.
fn is_misleading(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Shortens a name to the maximum length. Removes characters before the extension.
fn truncate(name: &str) -> String {
    let length = name.chars().count();
    if length <= bounds::FILENAME {
        return name.to_owned();
    }
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let kept_extension = if extension.chars().count() > 16 {
        ""
    } else {
        extension
    };
    let stem =
        bounds::FILENAME - kept_extension.chars().count() - usize::from(!kept_extension.is_empty());
    let mut short: String = name.chars().take(stem).collect();
    if !kept_extension.is_empty() {
        short.push('.');
        short.push_str(kept_extension);
    }
    short
}

/// Returns the extension for files of a media type.
fn extension(media: &str) -> &'static str {
    match media {
        "application/gzip" => "gz",
        "application/json" => "json",
        "application/pdf" => "pdf",
        "application/pgp-signature" => "asc",
        "application/pkcs7-signature" | "application/x-pkcs7-signature" => "p7s",
        "application/xml" | "text/xml" => "xml",
        "application/zip" => "zip",
        "audio/mpeg" => "mp3",
        "image/gif" => "gif",
        "image/jpeg" => "jpg",
        "image/png" => "png",
        "image/svg+xml" => "svg",
        "image/webp" => "webp",
        "message/global" | "message/rfc822" => "eml",
        "text/calendar" => "ics",
        "text/csv" => "csv",
        "text/html" => "html",
        "text/vcard" | "text/x-vcard" => "vcf",
        "video/mp4" => "mp4",
        _ if media.starts_with("text/") || media.starts_with("message/") => "txt",
        _ => "bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_folder_or_turn_around() {
        let name = |sent| sanitize(Some(sent), "application/pdf", 0);
        assert_eq!(name("report.pdf"), "report.pdf");
        assert_eq!(name("../../etc/passwd"), "_.._etc_passwd");
        assert_eq!(name("C:\\boot.ini"), "C:_boot.ini");
        assert_eq!(name("in\u{202e}fdp.exe"), "infdp.exe");
        assert_eq!(name("a\r\nb\0.txt"), "ab.txt");
        assert_eq!(name("\u{115f}a\u{ad}\u{e0041}\u{3164}.txt"), "a.txt");
        for nothing in ["", ".", "..", " . ", "\u{200e}"] {
            assert_eq!(name(nothing), "attachment-1.pdf");
        }
    }

    #[test]
    fn a_long_name_keeps_its_extension() {
        let name = sanitize(Some(&format!("{}.tar", "é".repeat(1000))), "x/y", 0);
        assert_eq!(name.chars().count(), bounds::FILENAME);
        assert!(name.ends_with("é.tar"));
        assert_eq!(
            sanitize(Some(&".".repeat(1000)), "message/rfc822", 2),
            "attachment-3.eml"
        );
        assert_eq!(
            sanitize(Some(&format!("a.{}", "b".repeat(1000))), "x/y", 0)
                .chars()
                .count(),
            bounds::FILENAME
        );
    }
}
