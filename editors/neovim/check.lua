-- Attaches the server to the open file, waits for a finding, applies the safe fix and saves.
local command = { vim.env.MEMLINT_PYTHON or "python3", "-m", "memlint", "server" }
local failed = function(message)
  print(message)
  vim.cmd("cquit 1")
end
local id = vim.lsp.start_client({ name = "memlint", cmd = command, root_dir = vim.fn.getcwd() })
if not id or not vim.lsp.buf_attach_client(0, id) then
  return failed("the server did not start")
end
local shown = vim.wait(60000, function() return #vim.diagnostic.get(0) > 0 end, 50)
if not shown then
  return failed("no finding was shown")
end
local finding
for _, each in ipairs(vim.diagnostic.get(0)) do
  finding = each.code == "MEM901" and each or finding
end
if not finding then
  return failed("the finding was not shown")
end
print(finding.code .. ", line " .. finding.lnum + 1 .. ": " .. finding.message)
local parameters = {
  textDocument = vim.lsp.util.make_text_document_params(),
  range = vim.lsp.util.make_given_range_params({ finding.lnum + 1, 0 }, { finding.lnum + 1, 0 }).range,
  context = { diagnostics = {}, only = { "quickfix" } },
}
local answers = vim.lsp.buf_request_sync(0, "textDocument/codeAction", parameters, 60000)
local client = vim.lsp.get_client_by_id(id)
for _, action in ipairs(answers and answers[id] and answers[id].result or {}) do
  if action.isPreferred then
    print("\n" .. action.title)
    vim.lsp.util.apply_workspace_edit(action.edit, client.offset_encoding)
    vim.cmd("write | quitall")
  end
end
failed("no safe fix was offered")
