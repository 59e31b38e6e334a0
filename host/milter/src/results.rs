//! The `Authentication-Results` field (RFC 8601): which fields claim to be this server's, and what it writes itself.

use mail_auth::{DkimResult, DmarcResult, SpfResult};

/// The name of the field.
pub(crate) const NAME: &str = "Authentication-Results";

/// Whether a field claims to come from this server: its authserv-id contains this server's, in any spelling. [`latchmail_mailbox`] reads only fields that begin with
/// exactly the id, so what passes here is never read there.
pub(crate) fn claims(value: &[u8], authserv_id: &str) -> bool {
    let value = String::from_utf8_lossy(value).to_ascii_lowercase();
    let id = value.split(';').next().unwrap_or_default();
    id.contains(&authserv_id.to_ascii_lowercase())
}

/// The result of a check: what was checked, the result, and properties such as `header.from`.
#[derive(Debug)]
pub(crate) struct Entry {
    method: &'static str,
    result: &'static str,
    properties: Vec<(&'static str, String)>,
}

impl Entry {
    pub(crate) fn new(method: &'static str, result: &'static str) -> Self {
        Self {
            method,
            result,
            properties: Vec::new(),
        }
    }

    /// Adds a property. A value that would need quotes is left out: the sender chose it.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if !value.is_empty() && value.len() <= 255 && value.bytes().all(plain) {
            self.properties.push((name, value.to_owned()));
        }
        self
    }

    /// Whether the result is this one.
    pub(crate) fn is(&self, result: &str) -> bool {
        self.result == result
    }

    pub(crate) fn set(&mut self, result: &'static str) {
        self.result = result;
    }
}

/// The value of the field, with its leading space.
pub(crate) fn value(authserv_id: &str, entries: &[Entry]) -> String {
    let mut value = format!(" {authserv_id}");
    for entry in entries {
        value.extend([";\n\t", entry.method, "=", entry.result]);
        for (name, property) in &entry.properties {
            value.extend([" ", name, "=", property]);
        }
    }
    value
}

/// The word for a result of SPF (RFC 8601, section 2.7.2).
pub(crate) fn spf(result: SpfResult) -> &'static str {
    match result {
        SpfResult::Pass => "pass",
        SpfResult::Fail => "fail",
        SpfResult::SoftFail => "softfail",
        SpfResult::Neutral => "neutral",
        SpfResult::TempError => "temperror",
        SpfResult::PermError => "permerror",
        SpfResult::None => "none",
    }
}

/// The word for a result of DKIM (RFC 8601, section 2.7.1).
pub(crate) fn dkim(result: &DkimResult) -> &'static str {
    match result {
        DkimResult::Pass => "pass",
        DkimResult::Neutral(_) => "neutral",
        DkimResult::Fail(_) => "fail",
        DkimResult::PermError(_) => "permerror",
        DkimResult::TempError(_) => "temperror",
        DkimResult::None => "none",
    }
}

/// The word for a result of DMARC (RFC 7489, section 11.2).
pub(crate) fn dmarc(result: &DmarcResult) -> &'static str {
    match result {
        DmarcResult::Pass => "pass",
        DmarcResult::Fail(_) => "fail",
        DmarcResult::TempError(_) => "temperror",
        DmarcResult::PermError(_) => "permerror",
        DmarcResult::None => "none",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_claim_to_be_ours_are_recognized() {
        for value in [
            " mail.first.test; dmarc=pass",
            " MAIL.first.TEST 1; dmarc=pass",
            "\n\t(a comment) \"mail.first.test\"; dmarc=pass",
            "mail.first.test",
        ] {
            assert!(claims(value.as_bytes(), "mail.first.test"), "{value}");
        }
        for value in [" mx.outside.test; spf=pass smtp.helo=mail.first.test", ""] {
            assert!(!claims(value.as_bytes(), "mail.first.test"), "{value}");
        }
    }

    #[test]
    fn values_that_the_sender_chose_cannot_add_a_result() {
        let entry = Entry::new("spf", "fail")
            .with("smtp.mailfrom", "a; dmarc=pass")
            .with("smtp.helo", "\n\tb")
            .with("header.from", "outside.test");
        assert_eq!(
            value("mail.first.test", &[entry]),
            " mail.first.test;\n\tspf=fail header.from=outside.test"
        );
    }
}
