//! GET `/api/v1/mail/folders`: returns all folders with their message counts and roles.

use latchmail_common::reading::{self, FolderList};
use latchmail_sdk::capability::{Caller, Mailbox};
use latchmail_sdk::{Failure, Reply, Request};

/// List folders
///
/// Returns every folder with its message counts. Folders with a role (inbox, sent, …) come first.
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
    use latchmail_sdk::capability::{Error, Scope};
    use latchmail_sdk::testing::{FakeHost, Letter, json};

    use super::*;

    #[test]
    fn a_folder_has_a_role_only_if_the_server_reports_one() {
        let host = FakeHost::new();
        host.file("Work", Letter::from("grace@example.org"));
        let response = json(list_folders(&host, &Request::default()));
        let folders = response["folders"].as_array().unwrap();
        let (inbox, work) = (folders.first().unwrap(), folders.last().unwrap());
        assert_eq!(inbox["specialUse"], "\\Inbox");
        assert_eq!(inbox["delimiter"], "/");
        assert_eq!(work["id"], "id of Work");
        assert!(work.get("specialUse").is_none());
    }

    #[test]
    fn the_error_for_a_rejected_credential_depends_on_its_kind() {
        let host = FakeHost::failing(Error::CredentialRefused);
        let failure = || list_folders(&host, &Request::default()).unwrap_err();
        assert_eq!(failure().text, "Mail session expired, please log in again");
        host.use_token(&[Scope::MailRead]);
        let text = "This credential is no longer valid for mail access";
        assert_eq!(failure().text, text);
        host.use_oauth();
        assert_eq!(failure().status, 401);
    }
}
