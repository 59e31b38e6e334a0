//! The policy of a grant in words, for the owner's page and for the sign-in pages. The words say
//! what the policy allows; the scopes of the grant can allow less.

use latchmail_core::policy::{DeleteLimit, OnDenied, Policy, SendLimit};
use maud::{Markup, html};

/// The maximum number of addresses or folders in a sentence. More of them are only counted.
const MAX_LISTED: usize = 20;

/// Renders the policy as a list of sentences. `None` is a grant without a policy.
pub(crate) fn policy_list(policy: Option<&Policy>) -> Markup {
    let sentences = policy.map_or_else(
        || vec!["There is no policy: it may do everything that its permissions allow.".to_owned()],
        sentences,
    );
    html! {
        ul.policy {
            @for sentence in &sentences { li { (sentence) } }
        }
    }
}

/// Returns the first sentence of [`policy_list`], which says to whom the grant may send.
pub(crate) fn summary(policy: Option<&Policy>) -> String {
    policy.map_or_else(|| "No policy.".to_owned(), sending)
}

fn sentences(policy: &Policy) -> Vec<String> {
    let mut all = vec![sending(policy)];
    all.extend(
        policy
            .send_per_day
            .map(|cap| format!("It may send at most {cap} messages a day.")),
    );
    all.extend(
        policy
            .recipients_per_day
            .map(|cap| format!("It may send to at most {cap} recipients a day.")),
    );
    let can_be_denied = !matches!(policy.send, SendLimit::Never | SendLimit::Drafts);
    if can_be_denied && policy.limits_sending() {
        all.push(
            match policy.on_denied {
                OnDenied::Hold => "Other messages wait for your decision.",
                OnDenied::Refuse => "Other messages are refused.",
            }
            .to_owned(),
        );
    }
    all.push(match policy.folders.as_deref() {
        None => "It may use all folders.".to_owned(),
        Some([]) => "It may use no folder.".to_owned(),
        Some(folders) => format!(
            "It may use only these folders, without their subfolders: {}.",
            listed(folders)
        ),
    });
    all.push(
        if policy.attachments {
            "It may read and send the attachments of your mail."
        } else {
            "It sees no attachments of your mail, and cannot send them."
        }
        .to_owned(),
    );
    all.push(
        if policy.hide_codes {
            "Codes and links for signing in are hidden from it."
        } else {
            "It sees codes and links for signing in."
        }
        .to_owned(),
    );
    all.push(
        match policy.delete {
            DeleteLimit::Never => "It may not delete mail, and not move mail to Trash.",
            DeleteLimit::Trash => "It may move mail to Trash, and not delete mail permanently.",
            DeleteLimit::Permanent => "It may delete mail permanently.",
        }
        .to_owned(),
    );
    all.push(
        if policy.aliases {
            "It may create and change aliases."
        } else {
            "It may not create or change aliases."
        }
        .to_owned(),
    );
    all.extend(
        policy
            .until
            .map(|until| format!("It may act until {}.", readable(&until.to_string()))),
    );
    all
}

fn sending(policy: &Policy) -> String {
    let others = listed(&policy.send_to);
    match policy.send {
        SendLimit::Never => "It may not send mail, and not write drafts.".to_owned(),
        SendLimit::Drafts => "It may write drafts, and not send mail.".to_owned(),
        SendLimit::Thread if policy.send_to.is_empty() => {
            "It may send only to people to whom you wrote in the same thread.".to_owned()
        }
        SendLimit::Thread => {
            format!(
                "It may send only to people to whom you wrote in the same thread, and to {others}."
            )
        }
        SendLimit::List if policy.send_to.is_empty() => {
            "It may send to no one, because the list of recipients is empty.".to_owned()
        }
        SendLimit::List => format!("It may send only to {others}."),
        SendLimit::Any => "It may send to everyone.".to_owned(),
    }
}

/// Joins texts with commas. Counts texts beyond [`MAX_LISTED`].
fn listed(texts: &[String]) -> String {
    let shown = texts.get(..MAX_LISTED).unwrap_or(texts).join(", ");
    match texts.len().checked_sub(MAX_LISTED) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

/// Returns a time in the form `2026-01-31T12:00:00.000Z` without its seconds.
fn readable(time: &str) -> String {
    match (time.get(..10), time.get(11..16)) {
        (Some(date), Some(minute)) => format!("{date} {minute} UTC"),
        _ => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use latchmail_core::clock::Timestamp;
    use latchmail_core::policy::Preset;

    use super::*;

    #[test]
    fn each_limit_of_a_policy_has_a_sentence() {
        let policy = Policy {
            send: SendLimit::Thread,
            send_to: vec!["ann@elsewhere.example".into(), "@friends.example".into()],
            send_per_day: Some(5),
            recipients_per_day: Some(9),
            folders: Some(vec!["INBOX".into(), "Work".into()]),
            attachments: false,
            hide_codes: true,
            delete: DeleteLimit::Never,
            on_denied: OnDenied::Hold,
            aliases: false,
            until: Some(Timestamp::from_millis(0)),
        };
        let expected = [
            "It may send only to people to whom you wrote in the same thread, and to ann@elsewhere.example, @friends.example.",
            "It may send at most 5 messages a day.",
            "It may send to at most 9 recipients a day.",
            "Other messages wait for your decision.",
            "It may use only these folders, without their subfolders: INBOX, Work.",
            "It sees no attachments of your mail, and cannot send them.",
            "Codes and links for signing in are hidden from it.",
            "It may not delete mail, and not move mail to Trash.",
            "It may not create or change aliases.",
            "It may act until 1970-01-01 00:00 UTC.",
        ];
        assert_eq!(sentences(&policy), expected);
        assert_eq!(summary(Some(&policy)), expected[0]);
        assert_eq!(summary(None), "No policy.");
    }

    #[test]
    fn presets_have_different_words() {
        let words = Preset::ALL.map(|preset| sentences(&preset.policy()));
        assert!(words[0] != words[1] && words[1] != words[2] && words[0] != words[2]);
    }

    #[test]
    fn a_text_of_the_owner_cannot_add_elements() {
        let policy = Policy {
            send: SendLimit::List,
            send_to: vec!["<img src=x>@evil.test".into()],
            folders: Some(vec!["<script>".into(); MAX_LISTED + 3]),
            ..Policy::default()
        };
        let shown = policy_list(Some(&policy)).into_string();
        assert!(
            !shown.contains("<img") && !shown.contains("<script>"),
            "{shown}"
        );
        assert!(shown.contains("and 3 more"), "{shown}");
    }
}
