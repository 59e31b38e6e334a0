//! A model of policies: what each way into the mailbox must do under a policy. The model shares no
//! code with the service.

use serde_json::Value;

/// A way into the mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    ListInbox,
    ListWork,
    ReadInbox,
    ReadWork,
    ReadHeader,
    ReadRaw,
    ReadAttachment,
    ReadCodeAttachment,
    Flag,
    MoveToWork,
    MoveToTrash,
    Trash,
    Delete,
    DeleteFolder,
    CreateDraft,
    SendToThread,
    SendToStranger,
    SendToListed,
    SendToPlusAddress,
    SendWithReplyTo,
    SendAttachment,
    ForwardToThread,
    Schedule,
    CreateWebhook,
    SetVacation,
    SetRules,
    CreateAlias,
}

impl Way {
    pub(super) const ALL: [Self; 27] = [
        Self::ListInbox,
        Self::ListWork,
        Self::ReadInbox,
        Self::ReadWork,
        Self::ReadHeader,
        Self::ReadRaw,
        Self::ReadAttachment,
        Self::ReadCodeAttachment,
        Self::Flag,
        Self::MoveToWork,
        Self::MoveToTrash,
        Self::Trash,
        Self::Delete,
        Self::DeleteFolder,
        Self::CreateDraft,
        Self::SendToThread,
        Self::SendToStranger,
        Self::SendToListed,
        Self::SendToPlusAddress,
        Self::SendWithReplyTo,
        Self::SendAttachment,
        Self::ForwardToThread,
        Self::Schedule,
        Self::CreateWebhook,
        Self::SetVacation,
        Self::SetRules,
        Self::CreateAlias,
    ];

    /// Returns whether a request needs a message of its own.
    pub(super) fn needs_message(self) -> bool {
        matches!(
            self,
            Self::ReadInbox
                | Self::ReadWork
                | Self::ReadHeader
                | Self::ReadRaw
                | Self::ReadAttachment
                | Self::ReadCodeAttachment
                | Self::Flag
                | Self::MoveToWork
                | Self::MoveToTrash
                | Self::Trash
                | Self::Delete
                | Self::SendAttachment
                | Self::ForwardToThread
        )
    }
}

/// What a request must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Done,
    /// 403 with the code of policies.
    Denied,
    /// 404, as if the folder or the message did not exist.
    Hidden,
}

/// Returns what a way must do under a policy.
pub(super) fn expected(policy: &Value, way: Way) -> Expected {
    let opens = |path: &str| match policy["folders"].as_array() {
        None => true,
        Some(paths) => paths.iter().any(|one| one == path),
    };
    let lists = policy["sendTo"]
        .as_array()
        .is_some_and(|list| !list.is_empty());
    let send = policy["send"].as_str().unwrap_or("any");
    let capped = policy["sendPerDay"].is_number() || policy["recipientsPerDay"].is_number();
    let delete = policy["delete"].as_str().unwrap_or("permanent");
    let is_on = |name: &str, default| policy[name].as_bool().unwrap_or(default);
    let (attachments, hides) = (is_on("attachments", true), is_on("hideCodes", false));
    let done_if = |allowed: bool| {
        if allowed {
            Expected::Done
        } else {
            Expected::Denied
        }
    };
    let in_inbox = |then: Expected| {
        if opens("INBOX") {
            then
        } else {
            Expected::Hidden
        }
    };
    let sends_to = |in_thread: bool, listed: bool| {
        done_if(match send {
            "any" => true,
            "thread" => in_thread || listed,
            "list" => listed,
            _ => false,
        })
    };
    match way {
        Way::ListWork | Way::ReadWork => {
            if opens("Work") {
                Expected::Done
            } else {
                Expected::Hidden
            }
        }
        // The stored form of a message could contain anything that is hidden.
        Way::ReadRaw if hides || !attachments => Expected::Denied,
        Way::ReadAttachment | Way::ReadCodeAttachment if !attachments => Expected::Denied,
        Way::ReadCodeAttachment => in_inbox(done_if(!hides)),
        Way::ListInbox
        | Way::ReadInbox
        | Way::ReadHeader
        | Way::Flag
        | Way::ReadRaw
        | Way::ReadAttachment => in_inbox(Expected::Done),
        Way::MoveToWork => {
            if opens("Work") {
                in_inbox(Expected::Done)
            } else {
                Expected::Hidden
            }
        }
        Way::MoveToTrash | Way::Trash | Way::Delete => match delete {
            "never" => Expected::Denied,
            _ => in_inbox(Expected::Done),
        },
        Way::DeleteFolder => match delete {
            _ if !opens("Old") => Expected::Hidden,
            "never" => Expected::Denied,
            _ => Expected::Done,
        },
        Way::CreateDraft => match send {
            "never" => Expected::Denied,
            _ => done_if(opens("Drafts")),
        },
        Way::SendToThread | Way::Schedule => sends_to(true, false),
        Way::SendToListed => sends_to(false, lists),
        Way::SendToStranger | Way::SendToPlusAddress | Way::SendWithReplyTo => {
            sends_to(false, false)
        }
        Way::SendAttachment => match sends_to(true, false) {
            Expected::Done if attachments => in_inbox(Expected::Done),
            _ => Expected::Denied,
        },
        Way::ForwardToThread => match send {
            // The forward would contain an attachment with a code.
            "any" if hides && attachments => in_inbox(Expected::Denied),
            "any" => in_inbox(Expected::Done),
            _ if !opens("INBOX") => Expected::Hidden,
            _ => Expected::Denied,
        },
        Way::CreateWebhook => done_if(send == "any" && !capped),
        Way::SetVacation | Way::SetRules => done_if(
            send == "any" && !capped && delete == "permanent" && policy["folders"].is_null(),
        ),
        Way::CreateAlias => done_if(is_on("aliases", false)),
    }
}
