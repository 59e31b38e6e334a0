//! GET `/api/v1/mail/folders`: returns all folders with counts and roles.

use latchmail_common::reading::{self, FolderList};
use latchmail_sdk::capability::{Caller, Mailbox};
use latchmail_sdk::{Failure, Reply, Request};

/// List folders
///
/// Every folder with its message counts. Folders with a role (inbox, sent, …) come first.
#[utoipa::path(
    get,
    path = "/api/v1/mail/folders",
    operation_id = "listFolders",
    tag = "Mail",
    responses((
        status = 200,
        description = "The folders",
        body = FolderList,
        links(
            ("listMessages" = (operation_id = "listMessages", parameters(("folder" = "$response.body#/folders/0/path")))),
            ("searchMessages" = (operation_id = "searchMessages", parameters(("folder" = "$response.body#/folders/0/path"))))
        )
    ))
)]
pub(crate) fn list_folders(host: &(impl Mailbox + Caller), _: &Request) -> Result<Reply, Failure> {
    Reply::json(&reading::folders(host)?)
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::{Error, Kind, Role};

    use super::*;
    use crate::testing::{FakeHost, folder, json};

    #[test]
    fn a_folder_has_its_role_only_where_the_server_gives_one() {
        let host = FakeHost {
            folders: Ok(vec![
                folder("INBOX", Some(Role::Inbox)),
                folder("Work", None),
            ]),
            ..FakeHost::default()
        };
        let answer = json(list_folders(&host, &Request::default()));
        assert_eq!(answer["folders"][0]["specialUse"], "\\Inbox");
        assert_eq!(answer["folders"][0]["delimiter"], "/");
        assert_eq!(answer["folders"][1]["id"], "id of Work");
        assert!(answer["folders"][1].get("specialUse").is_none());
    }

    #[test]
    fn a_refused_credential_is_told_to_a_person_otherwise_than_to_a_token() {
        let told = |kind| {
            let host = FakeHost {
                kind,
                folders: Err(Error::CredentialRefused),
                ..FakeHost::default()
            };
            list_folders(&host, &Request::default()).unwrap_err()
        };
        assert_eq!(
            told(Kind::Session).text,
            "Mail session expired, please log in again"
        );
        assert_eq!(
            told(Kind::ApiToken).text,
            "This credential is no longer valid for mail access"
        );
        assert_eq!(told(Kind::Oauth).status, 401);
    }
}
