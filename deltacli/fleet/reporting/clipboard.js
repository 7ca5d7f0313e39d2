"use strict";
const addCopyButton = (command) => {  // where the clipboard is refused, the command is selected
  const button = document.createElement("button");
  const label = (text) => {
    button.textContent = text;
    button.setAttribute("aria-label", `${text}: ${command.textContent}`);
  };
  button.type = "button";
  button.className = "copy";
  button.title = "copy the command";
  label("copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command.textContent);
      label("copied");
    } catch {
      getSelection().selectAllChildren(command);
      label(document.execCommand("copy") ? "copied" : "selected");
    }
    setTimeout(label, 2000, "copy");
  });
  command.after(" ", button);
};
document.querySelectorAll("pre").forEach(addCopyButton);
