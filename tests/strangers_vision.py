"""How other people write the bias of a window: whole windows, a buffer of rows, a class token, tables resized on loading."""

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, normalize

from relpos.impls.card import implements


@implements("swin")
class SwinTransformer(nn.Module):
    """The bias of the authors' WindowAttention, from a buffer of rows."""

    def __init__(self, window_size, num_heads: int) -> None:
        super().__init__()
        self.window_size = window_size
        height, width = window_size
        self.table = nn.Parameter(torch.zeros((2 * height - 1) * (2 * width - 1), num_heads))
        coords = torch.stack(torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")).flatten(1)
        relative = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0).contiguous()
        relative[:, :, 0] += height - 1
        relative[:, :, 1] += width - 1
        relative[:, :, 0] *= 2 * width - 1
        self.register_buffer("relative_position_index", relative.sum(-1))

    def forward(self) -> Tensor:
        N = self.window_size[0] * self.window_size[1]
        return self.table[self.relative_position_index.view(-1)].view(N, N, -1).permute(2, 0, 1).contiguous()


@implements("swin", settings={"sign": "key_minus_query"})
def max_vit(table: Tensor, window_size, num_heads: int) -> Tensor:
    """A table [H, 2h − 1, 2w − 1], rows and columns picked by key minus query."""
    height, width = window_size
    image = table.T.reshape(num_heads, 2 * height - 1, 2 * width - 1)
    rows, columns = (torch.arange(n)[None, :] - torch.arange(n)[:, None] + n - 1 for n in (height, width))
    picked = image[:, rows][..., columns]  # [H, query row, key row, query column, key column]
    return picked.permute(0, 1, 3, 2, 4).reshape(num_heads, height * width, height * width)


@implements("swin", level="attention", dtypes=("float32",))
def windows(q: Tensor, k: Tensor, v: Tensor, window_size, num_heads: int, table: Tensor, mask: Tensor) -> Tensor:
    """The authors' order: q scaled before, the bias added, −100 in place of hidden keys, and only then empty rows."""
    attn = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    rows = SwinTransformer(window_size, num_heads).relative_position_index
    attn = attn + table[rows].permute(2, 0, 1)
    attn = attn.masked_fill(~mask, float("-inf"))
    return torch.nan_to_num(torch.softmax(attn.masked_fill(~mask.any(-1, keepdim=True), 0.0), -1)) * mask.any(-1, True) @ v


@implements("beit")
def beit(table: Tensor, window_size) -> Tensor:
    """The authors' index with three rows for the class token."""
    height, width = window_size
    area, distances = height * width, (2 * height - 1) * (2 * width - 1) + 3
    coords = torch.stack(torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")).flatten(1)
    relative = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0).contiguous()
    relative[:, :, 0] += height - 1
    relative[:, :, 1] += width - 1
    relative[:, :, 0] *= 2 * width - 1
    index = torch.zeros(area + 1, area + 1, dtype=torch.long)
    index[1:, 1:] = relative.sum(-1)
    index[0, 0:] = distances - 3
    index[0:, 0] = distances - 2
    index[0, 0] = distances - 1
    return table[index.view(-1)].view(area + 1, area + 1, -1).permute(2, 0, 1)


@implements("swin_v2", level="logits", settings={"pretrained_window_size": None})
def swin_v2(q: Tensor, k: Tensor, params, window_size, num_heads: int) -> Tensor:
    """Normalised q and k, a clamped temperature, 16 times a sigmoid."""
    height, width = window_size
    h, w = torch.arange(1 - height, height).float(), torch.arange(1 - width, width).float()
    table = torch.stack(torch.meshgrid(h, w, indexing="ij"), -1)
    table = table / torch.tensor([max(height - 1, 1), max(width - 1, 1)]) * 8
    table = torch.sign(table) * torch.log2(table.abs() + 1.0) / torch.log2(torch.tensor(8.0))
    table = (torch.relu(table @ params["cpb_in"].T + params["cpb_bias"]) @ params["cpb_out"].T).view(-1, num_heads)
    rows = SwinTransformer(window_size, num_heads).relative_position_index
    scale = torch.clamp(params["logit_scale"], max=torch.log(torch.tensor(100.0))).exp().view(-1, 1, 1)
    attn = normalize(q, dim=-1) @ normalize(k, dim=-1).transpose(-2, -1) * scale
    return attn + 16 * torch.sigmoid(table[rows].permute(2, 0, 1))


@implements("beit")
def timm_resize(table: Tensor, source_window, window_size) -> Tensor:
    """timm's: cubic interpolation of the offsets, the rows of prefix tokens kept."""
    source, target = ([2 * n - 1 for n in window] for window in (source_window, window_size))
    kept = table[source[0] * source[1] :]
    image = table[: source[0] * source[1]].transpose(1, 0).reshape(1, -1, *source)
    image = interpolate(image, size=target, mode="bicubic", align_corners=False)
    return torch.cat((image.reshape(-1, target[0] * target[1]).transpose(1, 0), kept), dim=0)
