//! Tests of log-ins to a mailbox, and of the state of a new mailbox.

use super::{
    ANN, Folder, PASSWORD, Talk, an_app_password_opens_and_nothing_else_does, execute, imap, stack,
};

#[tokio::test]
async fn a_new_mailbox_has_its_folders_and_their_roles() {
    let folder = Folder::new("folders");
    let (stack, _directory) = stack(&folder).await;
    let list = imap(&stack).await.imap("LIST \"\" *").await;
    for role in ["Drafts", "Sent", "Junk", "Trash", "Archive"] {
        assert!(
            list.contains(&format!("\\{role}) \"/\" {role}\r\n")),
            "{list}"
        );
    }
    assert!(list.contains("INBOX"), "{list}");
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn an_app_password_opens_a_mailbox_and_hostile_log_ins_do_not() {
    let folder = Folder::new("login");
    let (stack, directory) = stack(&folder).await;
    an_app_password_opens_and_nothing_else_does(&stack).await;
    execute(&directory, "DELETE FROM app_passwords").await;
    let answer = Talk::with(stack.imap)
        .await
        .imap(&format!("LOGIN {ANN} {PASSWORD}"))
        .await;
    assert!(
        answer.starts_with("t NO"),
        "a revoked one dies at once: {answer}"
    );
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn a_login_name_is_folded_to_lower_case() {
    let folder = Folder::new("case");
    let (stack, _directory) = stack(&folder).await;
    let mut talk = Talk::with(stack.imap).await;
    let answer = talk
        .imap(&format!("LOGIN Ann@LATCHMAIL.test {PASSWORD}"))
        .await;
    assert!(answer.starts_with("t OK"), "{answer}");
    stack.stop().await.unwrap();
}
